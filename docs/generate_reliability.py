"""Run the long tests (``make soak``) and write docs/reliability.md from what they counted.

``python docs/generate_reliability.py --minutes 15`` makes a slice: tests come in the order in which they are due (never
passed, smallest share of the counts, longest ago), each is written down as soon as it is over, and none is begun when
the time is over. ``--minutes 0`` only writes the page. Other words are for pytest: ``tests/studies`` runs one area.
GLASSHOUSE_SOAK=0.1 makes a tenth of the counts; the page says how many there were.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILE = Path(__file__).parent / "results" / "reliability.json"
PAGE = Path(__file__).parent / "reliability.md"
SHARE = "GLASSHOUSE_SOAK"
PASSED = "passed"
HEAD = """# Reliability

Made by `make soak`, each line at the commit and on the day that it names. `make test` runs the same tests with smaller
counts. A whole soak makes 100 kills of each kind (200 of the server that takes votes), 10,000 odd inputs of each kind
(2,000 requests to that server) and 2,000 damages, and tries every write and every file; a line says which share of that
it comes from. Seconds are those of a machine that may have done other things as well.

| test | counted | of a whole soak | result | seconds | at |
|---|---|---|---|---|---|
"""


@dataclass(frozen=True)
class Result:
    """How a test ended: what it counted, with which share of a whole soak's counts, and at which commit and time."""

    counted: str
    share: float
    result: str
    seconds: float
    commit: str
    ended: str

    @property
    def due(self) -> tuple[float, str]:
        """What sorts first is to be run first."""
        return self.share if self.result == PASSED else 0.0, self.ended


class Soak:
    """A plugin of pytest: puts tests into the order in which they are due, and keeps each result at once."""

    def __init__(self, minutes: float, share: float) -> None:
        self.deadline = time.monotonic() + 60 * minutes
        self.share = share
        self.known = read()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Tests that were never run come first."""
        items.sort(key=lambda item: self.known[item.nodeid].due if item.nodeid in self.known else (0.0, ""))

    def pytest_runtest_protocol(self) -> bool | None:
        """Pass over what is left when the time is over."""
        return True if time.monotonic() >= self.deadline else None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep what a test counted, or that it could not even begin or end."""
        if report.when != "call" and report.passed:
            return
        counted = "; ".join(str(value) for _, value in report.user_properties)
        ended = datetime.now(UTC).isoformat(timespec="seconds")
        self.known[report.nodeid] = Result(
            counted, self.share, report.outcome, round(report.duration, 1), commit(), ended
        )
        write(self.known)


def commit() -> str:
    """The commit that is tested."""
    return subprocess.check_output(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, text=True).strip()


def read() -> dict[str, Result]:
    """What is known of each test, by its name in pytest."""
    return {test: Result(**found) for test, found in json.loads(FILE.read_text(encoding="utf-8")).items()}


def write(known: dict[str, Result]) -> None:
    """Keep results, and make the page of them."""
    content = {test: asdict(known[test]) for test in sorted(known)}
    FILE.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(HEAD + "".join(_line(test, known[test]) for test in sorted(known)), encoding="utf-8")


def _line(test: str, one: Result) -> str:
    """What a test counted, and how it ended."""
    name = test.partition("::test_")[2].replace("_", " ").replace("[", ": ").rstrip("]")
    result = one.result if one.result == PASSED else f"**{one.result}**"
    at = f"{one.commit}, {one.ended[:10]}"
    return f"| {name} | {one.counted} | {one.share:.0%} | {result} | {one.seconds:.0f} | {at} |\n"


def main() -> int:
    """Run tests, write the page, and fail where a test failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no further test after this time")
    known, words = parser.parse_known_args()
    if known.minutes <= 0:
        write(read())
        return 0
    os.environ.update({SHARE: os.environ.get(SHARE) or "1", "OMP_NUM_THREADS": "1"})
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT))  # where ``tests`` lies
    return pytest.main(["-m", "soak", *words], plugins=[Soak(known.minutes, float(os.environ[SHARE]))])


if __name__ == "__main__":
    sys.exit(main())
