"""The default federation; then twenty clients x twenty rounds on MNIST: minutes, memory, and what is left behind."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from clock import row

from glasshouse import data
from glasshouse.errors import GlasshouseError
from glasshouse.federated import Federation
from glasshouse.federated.run import federate

IMAGES = 60_000
CLIENTS = 20
ROUNDS = 20
MINUTES = 15
SECONDS = 120  # of the default
GROWTH = 1.05  # of memory from the second quarter of the rounds to the last, which flat memory stays under
GRACE = 30  # seconds in which what was started may end
PROC = Path("/proc")
KILO = 1024
TICK = os.sysconf("SC_CLK_TCK")
LISTENS = "0A"  # the state of a socket in /proc/net/tcp
WORKED: dict[int, float] = {}  # seconds of processors by Ray's workers, whose end nobody waits for


@dataclass(frozen=True, slots=True)
class Trace:
    """What runs on the machine because of this process: others by their numbers, and sockets that they listen on."""

    processes: frozenset[int]
    sockets: frozenset[str]

    @classmethod
    def now(cls) -> Trace:
        """The trace at this moment."""
        started = family(os.getpid())
        return cls(frozenset(started - {os.getpid()}), frozenset(held(started) & listening()))

    def without(self, other: Trace) -> Trace:
        """What is not in the other."""
        return Trace(self.processes - other.processes, self.sockets - other.sockets)

    def left(self) -> Trace:
        """What is still there of it."""
        there = {process for process in self.processes if (PROC / str(process)).exists()}
        return Trace(frozenset(there), self.sockets & listening())

    def __str__(self) -> str:
        return f"{len(self.processes)} and {len(self.sockets)}"


def run() -> list[dict[str, object]]:
    """One federation in a directory of its own."""
    with tempfile.TemporaryDirectory() as name:
        default = embedded(Path(name) / "default")
        memory, trace, home = list[int](), list[Trace](), Path(name)
        dataset, words = images(home)
        before = Trace.now()
        plan = Federation(dataset=dataset, images=IMAGES, model="lenet", clients=CLIENTS, rounds=ROUNDS)

        def look() -> None:
            started = family(os.getpid())
            memory.append(sum(map(resident, started)))
            WORKED.update({one: seconds(one) for one in started if parent(one) not in (os.getpid(), os.getppid())})
            trace[:] = [Trace.now().without(before)]

        began = time.perf_counter()
        accuracy = federate(plan, home / "federation", tell=lambda facts: look()).accuracy
        minutes = (time.perf_counter() - began) / 60
        left = after(GRACE, trace[0].left)
    quarter = max(len(memory) // 4, 1)
    middle, end = (statistics.fmean(part) for part in (memory[quarter : 2 * quarter] or memory, memory[-quarter:]))
    return [
        row(
            "glasshouse federate on embedded digits",
            f"{default:.0f} s",
            f"{SECONDS} s",
            default < SECONDS,
        ),
        row(
            f"LeNet, {CLIENTS} clients x {ROUNDS} rounds, {IMAGES:,} {words}",
            f"{minutes:.1f} minutes; then right on {accuracy:.1%} of the test images",
            f"{MINUTES} minutes",
            minutes < MINUTES,
        ),
        row(
            "memory of all processes in the last quarter of the rounds, beside that in the second",
            f"{end / middle:.3f}x of {middle / 2**20:.0f} MB",
            f"{GROWTH}x",
            end <= GROWTH * middle,
        ),
        row(
            "processes and listening ports that it started, left after it",
            f"{left} of {trace[0]}",
            "0 and 0",
            not left.processes | left.sockets,
        ),
    ]


def embedded(out: Path) -> float:
    """Seconds of the command as a user types it first, from an empty machine to the report."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-m", "glasshouse", "federate", "--quiet", "--out", str(out)], check=True)
    return time.perf_counter() - began


def unseen() -> float:
    """Seconds of processors by the workers, up to the last round."""
    return sum(WORKED.values())


def images(home: Path) -> tuple[str, str]:
    """MNIST and what to call it; without it random pixels of its shape, which take as long."""
    try:
        data.load("mnist")
    except GlasshouseError:
        rng = np.random.default_rng(0)
        parts = {"train": IMAGES, "test": 10_000}
        pixels = {f"x_{part}": rng.integers(0, 256, (count, 28, 28), np.uint8) for part, count in parts.items()}
        np.savez(home / "images.npz", **pixels, **{f"y_{part}": np.arange(count) % 10 for part, count in parts.items()})
        return str(home / "images.npz"), "random images of MNIST's shape"
    return "mnist", "images of MNIST"


def after(seconds: float, look: Callable[[], Trace]) -> Trace:
    """What is left once nothing is, or once the time is over."""
    deadline = time.monotonic() + seconds
    while (found := look()) != Trace(frozenset(), frozenset()) and time.monotonic() < deadline:
        time.sleep(0.2)
    return found


def family(process: int) -> set[int]:
    """A process and all that it started, directly or not, which are still there."""
    parents = {int(place.name): parent(int(place.name)) for place in PROC.iterdir() if place.name.isdecimal()}
    found = {process}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def parent(process: int) -> int:
    """Who started a process."""
    return _numbers(process, "stat", 1)[0]


def seconds(process: int) -> float:
    """Seconds of processors that a process used."""
    return sum(_numbers(process, "stat", 11, 12)) / TICK


def resident(process: int) -> int:
    """Resident bytes of a process, of pages that several share its part: Ray's store is in all of them."""
    with suppress(OSError):
        lines = (PROC / str(process) / "smaps_rollup").read_text().splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) * KILO
    return 0


def _numbers(process: int, file: str, *places: int) -> list[int]:
    """Some fields of a process, behind its name where that is in the file; zeros of one that ended meanwhile."""
    with suppress(OSError):
        fields = (PROC / str(process) / file).read_text().rpartition(")")[2].split()
        return [int(fields[place]) for place in places]
    return [0] * len(places)


def held(processes: set[int]) -> set[str]:
    """The sockets that processes hold, by their inodes."""
    links = set()
    for process in processes:
        with suppress(OSError):  # a process, or a file of it, that is gone meanwhile
            for one in (PROC / str(process) / "fd").iterdir():
                with suppress(OSError):
                    links.add(str(one.readlink()))
    return {link.removeprefix("socket:[").rstrip("]") for link in links if link.startswith("socket:")}


def listening() -> set[str]:
    """The sockets that listen on a port of this machine, by their inodes."""
    lines = [line.split() for name in ("tcp", "tcp6") for line in (PROC / "net" / name).read_text().splitlines()[1:]]
    return {fields[9] for fields in lines if fields[3] == LISTENS}
