"""What it costs to run a study beside the attacks: time, memory, workers, the report, and help."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import command_line
import numpy as np
from clock import row

from glasshouse.reports import write_report
from glasshouse.store import Location
from glasshouse.studies.audit import Running, audit_plan
from glasshouse.studies.executors import Executor, Finished, Inline, JobT, Local, ResultT, Watch, Workbench
from glasshouse.studies.materials import from_dataset
from glasshouse.studies.plan import Plan
from glasshouse.studies.runner import Summary
from glasshouse.studies.runner import run as run_cases
from glasshouse.studies.study import Study, prepare

IMAGES = 100
SHORT, LONG = 1_000, 10_000  # cases
SAMPLE = 8  # cases of the attack that people run, which a thousand cases are compared with
SHARED = 32  # cases that one worker, or two, work on
TURNS = 3
CHEAP = {"model": "mlp:width=16", "attacks": ("fc_inversion",), "metrics": ("mse",)}


def run() -> list[dict[str, object]]:
    """Measure all five."""
    return [overhead(), workers(), memory(), report(), *command_line.run()]


def noisy(count: int) -> tuple[str, ...]:
    """So many defenses, each different enough to make cases of its own."""
    return tuple(f"gaussian:sigma={number + 1}e-6" for number in range(count))


@dataclass
class Timed(Executor):
    """Works in this process, and counts what the attacks take of wall and CPU time, and memory after every task."""

    wall: float = 0.0
    cpu: float = 0.0
    memory: list[int] = field(default_factory=list)

    def work(
        self,
        tasks: list[tuple[JobT, ...]],
        bench: Workbench[JobT, ResultT],
        *,
        watch: Watch,
        deadline: float,
    ) -> Iterator[Finished[JobT, ResultT]]:
        """Yield finished tasks in the order given."""
        for task in tasks:
            wall, cpu = time.perf_counter(), time.process_time()
            (finished,) = Inline().work([task], bench, watch=watch, deadline=deadline)
            self.wall += time.perf_counter() - wall
            self.cpu += time.process_time() - cpu
            self.memory.append(resident())
            yield finished


def resident() -> int:
    """Bytes of memory that this process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@contextmanager
def study(plan: Plan) -> Iterator[Study]:
    """A study of a plan that nobody has worked on yet."""
    with tempfile.TemporaryDirectory() as folder:
        images = from_dataset(plan.dataset, plan.images, plan.seed, size=plan.size, root=None, download=False)
        opened = prepare(plan, Location(Path(folder)), images)
        yield opened
        opened.store.close()


def carried_out(opened: Study, executor: Executor, most_images: int | None = None) -> Summary:
    """Work on every case of a study."""
    parts = opened.cases, opened.store, opened.album, opened.bench
    return run_cases(*parts, executor=executor, most_images=most_images)


def digits(cases: int) -> Plan:
    """A plan of so many cheap cases."""
    return Plan(dataset="digits:split=train", images=IMAGES, defenses=noisy(cases // IMAGES), **CHEAP)


def timed(plan: Plan) -> tuple[int, float, float, Timed]:
    """The cases of a plan, what they took of wall and CPU time from the plan on, and what attacks took of it."""
    executor = Timed()
    wall, cpu = time.perf_counter(), time.process_time()
    with study(plan) as opened:
        done = carried_out(opened, executor).done
        return done, time.perf_counter() - wall, time.process_time() - cpu, executor


def overhead() -> dict[str, object]:
    """What a case costs beside its attack, over what the attack takes that an audit runs unless told otherwise."""
    done, wall, cpu, cheap = timed(digits(SHORT))
    attacked, _, _, usual = timed(Plan(images=SAMPLE, attacks=("invgrad",), defenses=("none",), metrics=("mse",)))
    of_wall = (wall - cheap.wall) / done / (usual.wall / attacked)
    of_cpu = (cpu - cheap.cpu) / done / (usual.cpu / attacked)
    ms = 1000 * (cpu - cheap.cpu) / done
    what = f"{done} cases: engine over attack time, by case (invgrad on lenet, {attacked} cases)"
    measured = f"{of_cpu:.2%} of CPU, {of_wall:.2%} of wall time; {ms:.1f} ms of CPU a case"
    return row(what, measured, "2 %", max(of_cpu, of_wall) < 0.02)


def workers() -> dict[str, object]:
    """One worker against two on the same cases, in turns; workers start within the time."""
    times: dict[int, list[float]] = {1: [], 2: []}
    plan = Plan(dataset="digits:split=train,size=16", images=SHARED, attacks=("invgrad:steps=600",), defenses=("none",))
    for _ in range(TURNS):
        for count, found in times.items():
            with study(plan) as opened:
                began = time.perf_counter()
                carried_out(opened, Local(count), most_images=1)
                found.append(time.perf_counter() - began)
    ratios = sorted(one / two for one, two in zip(times[1], times[2], strict=True))
    middle = ratios[TURNS // 2]
    return row(
        f"two workers against one, {SHARED} cases, {TURNS} turns",
        f"{middle:.2f}x ({ratios[0]:.2f} to {ratios[-1]:.2f})",
        "1.8x",
        middle >= 1.8,
    )


def memory() -> dict[str, object]:
    """Memory after a tenth of many cases, and after all."""
    done, _, _, executor = timed(digits(LONG))
    early, late = (executor.memory[place] / 2**20 for place in (len(executor.memory) // 10, -1))
    return row(
        f"memory after {done // 10} and {done} cases", f"{early:.0f} and {late:.0f} MB", "5 %", late < 1.05 * early
    )


def report() -> dict[str, object]:
    """The page of a thousand colour images, of noise: no picture takes more room."""
    with tempfile.TemporaryDirectory() as folder:
        rng = np.random.default_rng(0)
        pixels, labels = rng.integers(0, 256, (1_000, 32, 32, 3), dtype=np.uint8), np.arange(1_000) % 10
        np.savez(Path(folder) / "noise.npz", images=pixels, labels=labels)
        plan = Plan(dataset=f"{folder}/noise.npz", images=len(pixels), defenses=("none",), **CHEAP)
        result, _ = audit_plan(plan, Path(folder) / "audit", Running())
        wall, cpu = time.perf_counter(), time.process_time()
        page = write_report(result)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        size = page.stat().st_size / 1e6
    measured = f"{cpu:.1f} s of CPU, {wall:.1f} s of wall time, {size:.1f} MB"
    return row("report of 1,000 images, all shown", measured, "10 s, 10 MB", cpu < 10 and size < 10)
