"""Run the long tests (``make soak``) and write docs/reliability.md from what they counted.

Words are for pytest: ``python docs/generate_reliability.py tests/studies`` runs one area again and keeps the lines of
all others. GLASSHOUSE_SOAK=0.1 makes a tenth of the counts; the page says how many there were.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from datetime import date
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reliability.md"
HEAD = """# Reliability

Made by `make soak`, each line at the commit and on the day that it names. `make test` runs the same tests with smaller
counts. A whole soak makes 100 kills of each kind, 10,000 odd inputs of each kind and 2,000 damages, and tries every
write and every file; lines with fewer come from a shorter run (GLASSHOUSE_SOAK=0.1 makes a tenth). Seconds are those of
a machine that may have done other things as well.

| test | counted | result | seconds | at |
|---|---|---|---|---|
"""


def main() -> None:
    """Run, write, and fail where a test failed."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "soak.xml"
        output = ["-o", "junit_family=xunit1", f"--junitxml={report}"]  # the newer family has no room for counts
        command = [sys.executable, "-m", "pytest", "-m", "soak", *output, *sys.argv[1:]]
        environment = {"GLASSHOUSE_SOAK": "1", **os.environ, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, cwd=ROOT, env=environment, check=False)
        write(report)
    sys.exit(done.returncode)


def write(report: Path) -> None:
    """Put what was counted into the page; tests that did not run keep their lines."""
    commit = subprocess.check_output(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, text=True).strip()
    made = f"{commit}, {date.today().isoformat()}"
    lines = {_name(line): line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.endswith(" |")}
    found = [_line(case, made) for case in ElementTree.parse(report).getroot().iter("testcase")]
    lines |= {_name(line): line for line in found}
    known = (line for name, line in lines.items() if name not in ("test", "---"))
    PAGE.write_text(HEAD + "\n".join(known) + "\n", encoding="utf-8")


def _name(line: str) -> str:
    """The test that a line is about."""
    return line.split("|")[1].strip()


def _line(case: ElementTree.Element, made: str) -> str:
    """What a test counted, and how it ended."""
    counted = "; ".join(one.get("value", "") for one in case.iter("property"))
    bad = [kind for kind in ("failure", "error", "skipped") if case.find(kind) is not None]
    name = case.get("name", "").removeprefix("test_").replace("_", " ").replace("[", ": ").rstrip("]")
    result = f"**{bad[0]}**" if bad else "passed"
    return f"| {name} | {counted} | {result} | {float(case.get('time', 0)):.0f} | {made} |"


if __name__ == "__main__":
    main()
