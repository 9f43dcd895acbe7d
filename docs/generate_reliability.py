"""Run the long tests (``make soak``) and write docs/reliability.md from what they counted."""

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

Made by `make soak` at commit {commit} on {date}. `make test` runs the same tests with smaller counts.

| test | counted | result | seconds |
|---|---|---|---|
"""


def main() -> None:
    """Run, write, and fail where a test failed."""
    commit = subprocess.check_output(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, text=True).strip()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "soak.xml"
        output = ["-o", "junit_family=xunit1", f"--junitxml={report}"]  # the newer family has no room for counts
        command = [sys.executable, "-m", "pytest", "-m", "soak", *output, *sys.argv[1:]]
        environment = {**os.environ, "GLASSHOUSE_SOAK": "1", "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, cwd=ROOT, env=environment, check=False)
        head = HEAD.format(commit=commit, date=date.today().isoformat())
        cases = ElementTree.parse(report).getroot().iter("testcase")
        PAGE.write_text(head + "".join(map(line, cases)), encoding="utf-8")
    sys.exit(done.returncode)


def line(case: ElementTree.Element) -> str:
    """What a test counted, and how it ended."""
    counted = "; ".join(one.get("value", "") for one in case.iter("property"))
    bad = [kind for kind in ("failure", "error", "skipped") if case.find(kind) is not None]
    name = case.get("name", "").removeprefix("test_").replace("_", " ").replace("[", ": ").rstrip("]")
    return f"| {name} | {counted} | {f'**{bad[0]}**' if bad else 'passed'} | {float(case.get('time', 0)):.0f} |\n"


main()
