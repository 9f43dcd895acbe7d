"""Run every benchmark and write benchmarks/results/*.json and docs/benchmarks.md.

A benchmark measures both sides of a ratio in one run on one machine; ratios travel, seconds do not.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import platform
import resource
import sys
import time
from datetime import date
from pathlib import Path

HERE = Path(__file__).parent
RESULTS = HERE / "results"
PAGE = HERE.parent / "docs" / "benchmarks.md"
NAMES = (
    "metrics",
    "loading",
    "command_line",
    "shuffling",
    "training",
    "fitting",
    "agreement",
    "attacks",
    "runner",
    "annotation",
    "semsim",
    "federation",
    "many_clients",
)

sys.path.insert(0, str(HERE))


def main() -> None:
    """Run the benchmarks named on the command line, or all; then write the page from all results."""
    RESULTS.mkdir(exist_ok=True)
    for name in sys.argv[1:] or NAMES:
        print(f"benchmark {name}", flush=True)
        began = processor_seconds()
        benchmark = importlib.import_module(name)
        rows = benchmark.run()
        unseen = benchmark.unseen() if hasattr(benchmark, "unseen") else 0.0
        machine = {
            "cores": os.cpu_count(),
            "python": platform.python_version(),
            "date": date.today().isoformat(),
            "other work": other_work(began, processor_seconds(), unseen),
        }
        (RESULTS / f"{name}.json").write_text(json.dumps({"machine": machine, "rows": rows}, indent=1) + "\n")
    PAGE.write_text(page(), encoding="utf-8")


def processor_seconds() -> tuple[float, float, float]:
    """Seconds by the clock, of all processors at work, and of them by this benchmark and the processes it started."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    own = sum(one.ru_utime + one.ru_stime for one in used)
    stat = Path("/proc/stat")
    if not stat.is_file():  # a machine that does not count
        return time.perf_counter(), math.nan, own
    fields = [int(field) for field in stat.read_text().splitlines()[0].split()[1:9]]
    idle, waiting = fields[3], fields[4]
    ticks = os.sysconf("SC_CLK_TCK")
    return time.perf_counter(), (sum(fields) - idle - waiting) / ticks, own + living_children() / ticks


def living_children() -> int:
    """Ticks of processes that this one started and that still run, as the server that forks workers, with theirs."""
    spent = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        if int(fields[1]) == os.getpid():
            spent += sum(map(int, fields[11:15]))
    return spent


def other_work(began: tuple[float, float, float], ended: tuple[float, float, float], unseen: float) -> str:
    """How much of the processors everything but the benchmark used: two-thread loops bear little of it.

    ``unseen`` are seconds of the benchmark's own processes whose end nobody waited for, as of Ray's workers.
    """
    clock, busy, own = (after - before for before, after in zip(began, ended, strict=True))
    share = (busy - own - unseen) / (clock * (os.cpu_count() or 1))
    return "not known" if math.isnan(share) else f"{max(share, 0):.0%} of the processors"


def page() -> str:
    """The page, from the result files alone."""
    parts = [
        "# Benchmarks\n\nMade by `make bench` from `benchmarks/results/*.json`; ratios were measured in one run on one "
        "machine. Nothing here is typed by hand.\n"
    ]
    for file in sorted(RESULTS.glob("*.json")):
        found = json.loads(file.read_text())
        machine = ", ".join(f"{key} {value}" for key, value in found["machine"].items())
        parts.append(f"## {file.stem.replace('_', ' ')}\n\n{machine}\n")
        parts.append("| what | measured | wanted | reached |\n|---|---|---|---|")
        parts += [
            f"| {row['what']} | {row['measured']} | {row['wanted']} | {'yes' if row['reached'] else '**no**'} |"
            for row in found["rows"]
        ]
        parts.append("")
    return "\n".join(parts)


if __name__ == "__main__":
    main()
