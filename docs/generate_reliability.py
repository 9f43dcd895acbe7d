"""Run the long tests (``make soak``) and write docs/reliability.md from what they counted.

GLASSHOUSE_SOAK=0.1 python docs/generate_reliability.py --minutes 15 makes a slice of 15 minutes, a tenth of the counts
in each test: the tests that are due come first (never passed, smallest share, longest ago), none is begun when the time
is over, and each is written down as soon as it has ended. Slices add up until the counts of a whole soak are reached.
``--minutes 0`` only writes the page. Other words are for pytest: ``tests/studies`` runs one area.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from page_tables import table

ROOT = Path(__file__).parents[1]
FILE = Path(__file__).parent / "results" / "reliability.json"
PAGE = Path(__file__).parent / "reliability.md"
SHARE, SLICE = "GLASSHOUSE_SOAK", "GLASSHOUSE_SOAK_SLICE"
PASSED = "passed"
WHOLE = 0.999  # ten tenths are not quite one
HEAD = """# Reliability

Made by `make soak`, each line at the commit and on the day that it names; one that was made in several slices names the
last. `make test` runs the same tests with smaller counts, and leaves out those
that start many processes. A whole soak makes 100 kills of each kind (200 of the server
that takes votes), 10,000 odd inputs of each kind (2,000 requests to that server) and 2,000 damages, and tries every
write and every file; a line says which share of that it comes from. Seconds are those of a machine that may have done
other things as well.
"""


@dataclass(frozen=True)
class Result:
    """How a test ended: what it counted, in how many slices of a whole soak, and at which commit and time."""

    counted: dict[str, int | str]
    share: float
    slices: int
    result: str
    seconds: float
    commit: str
    ended: str

    @property
    def due(self) -> tuple[float, str]:
        """What sorts first is to be run first."""
        return self.share if self.result == PASSED else 0.0, self.ended

    @property
    def whole(self) -> bool:
        """Whether nothing is left to be counted."""
        return self.result == PASSED and self.share > WHOLE

    def after(self, before: Result) -> Result:
        """The same with what slices before it counted, unless that was something else."""
        if self.counted.keys() != before.counted.keys():
            return self
        counted = {name: number + before.counted[name] for name, number in self.counted.items()}
        share, slices = self.share + before.share, self.slices + before.slices
        return replace(self, counted=counted, share=share, slices=slices, seconds=self.seconds + before.seconds)


NOTHING = Result(counted={}, share=0.0, slices=0, result="never run", seconds=0.0, commit="", ended="")


class Soak:
    """A plugin of pytest: puts tests into the order in which they are due, and keeps each result at once."""

    def __init__(self, minutes: float, share: float) -> None:
        self.deadline = time.monotonic() + 60 * minutes
        self.share = share
        self.known = read()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Tests that were never run come first; what is whole needs no slice."""
        left = [item for item in items if self.share > WHOLE or not self._known(item.nodeid).whole]
        items[:] = sorted(left, key=lambda item: self._known(item.nodeid).due)

    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        """Pass over what is left when the time is over; each slice draws other tries."""
        os.environ[SLICE] = str(self._before(item.nodeid).slices)
        return True if time.monotonic() >= self.deadline else None

    def _known(self, test: str) -> Result:
        return self.known.get(test, NOTHING)

    def _before(self, test: str) -> Result:
        """What a slice adds to: nothing where a whole soak is made, behind a failure, or once all is counted."""
        found = self._known(test)
        return found if found.result == PASSED and not found.whole and self.share < WHOLE else NOTHING

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep what a test counted, or that it could not even begin or end."""
        if report.when != "call" and report.passed:
            return
        counted = dict(report.user_properties)
        scales = all(isinstance(number, int) for number in counted.values())
        ended = datetime.now(UTC).isoformat(timespec="seconds")
        share = self.share if scales else 1.0
        found = Result(counted, share, 1, report.outcome, round(report.duration, 1), commit(), ended)
        self.known[report.nodeid] = found.after(self._before(report.nodeid)) if report.passed else found
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
    heads = ["test", "counted", "of a whole soak", "result", "seconds", "at"]
    lines = table(heads, [_row(test, known[test]) for test in sorted(known)])
    PAGE.write_text("\n".join([HEAD, *lines]) + "\n", encoding="utf-8")


def _row(test: str, one: Result) -> list[str]:
    """What a test counted, and how it ended."""
    name = test.partition("::test_")[2].replace("_", " ").replace("[", ": ").rstrip("]")
    counted = (f"{number} {what}" if isinstance(number, int) else number for what, number in one.counted.items())
    result = one.result if one.result == PASSED else f"**{one.result}**"
    at = f"{one.commit}, {one.ended[:10]}"
    return [name, ", ".join(counted), f"{one.share:.0%}", result, f"{one.seconds:.0f}", at]


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
