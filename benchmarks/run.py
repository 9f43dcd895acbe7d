"""Run every benchmark and write benchmarks/results/*.json and docs/benchmarks.md.

A benchmark measures both sides of a ratio in one run on one machine; ratios travel, seconds do not.
"""

from __future__ import annotations

import importlib
import json
import os
import platform
import sys
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
    "agreement",
    "attacks",
    "runner",
    "annotation",
    "semsim",
    "federation",
)

sys.path.insert(0, str(HERE))


def main() -> None:
    """Run the benchmarks named on the command line, or all; then write the page from all results."""
    RESULTS.mkdir(exist_ok=True)
    for name in sys.argv[1:] or NAMES:
        print(f"benchmark {name}", flush=True)
        rows = importlib.import_module(name).run()
        machine = {"cores": os.cpu_count(), "python": platform.python_version(), "date": date.today().isoformat()}
        (RESULTS / f"{name}.json").write_text(json.dumps({"machine": machine, "rows": rows}, indent=1) + "\n")
    PAGE.write_text(page(), encoding="utf-8")


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
