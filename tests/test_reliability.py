"""The long tests in slices: what is due comes first, each result is kept at once, the page holds what is kept."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from tests.soak import piece

DOCS = Path(__file__).parents[1] / "docs"
TEST = "tests/test_x.py::test_kills_of_all[one]"


@pytest.fixture
def reliability(tmp_path, monkeypatch) -> ModuleType:
    """The script beside a copy of the results."""
    (tmp_path / "results").mkdir()
    monkeypatch.syspath_prepend(str(DOCS))
    script = shutil.copy(DOCS / "generate_reliability.py", tmp_path)
    shutil.copy(DOCS / "results" / "reliability.json", tmp_path / "results")
    spec = importlib.util.spec_from_file_location("generate_reliability", script)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "commit", lambda: "abc1234")
    return module


def ended(reliability, share, result, at="2026-03-01", slices=1):
    return reliability.Result({"kills": 5}, share, slices, result, 1.0, "abc1234", at)


def item(name):
    return SimpleNamespace(nodeid=name)


def report(outcome="passed", when="call", **counted):
    counts = list(counted.items())
    return pytest.TestReport(TEST, ("", 0, ""), {}, outcome, None, when, user_properties=counts, duration=2.0)


def test_the_page_comes_from_its_file(reliability, monkeypatch):
    monkeypatch.setattr("sys.argv", ["generate_reliability.py", "--minutes", "0"])
    assert reliability.main() == 0
    assert reliability.PAGE.read_text(encoding="utf-8") == (DOCS / "reliability.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(("share", "last"), [(0.1, []), (1.0, ["whole"])])
def test_what_is_due_comes_first_and_what_is_whole_needs_no_slice(share, last, reliability):
    soak = reliability.Soak(1, share)
    soak.known = {
        "whole": ended(reliability, 1.0, "passed", "2026-01-01"),
        "lately": ended(reliability, 0.1, "passed", "2026-03-01"),
        "long ago": ended(reliability, 0.1, "passed", "2026-02-01"),
        "broken": ended(reliability, 1.0, "failed", "2026-03-01"),
    }
    items = [item(name) for name in (*soak.known, "new")]
    soak.pytest_collection_modifyitems(items)
    assert [one.nodeid for one in items] == ["new", "broken", "long ago", "lately", *last]


@pytest.mark.parametrize(("minutes", "answer"), [(1, None), (0, True)])
def test_no_test_begins_when_the_time_is_over(reliability, minutes, answer):
    assert reliability.Soak(minutes, 1.0).pytest_runtest_protocol(item(TEST)) is answer


@pytest.mark.parametrize(
    ("when", "outcome", "cell"),
    [("call", "passed", "passed"), ("setup", "skipped", "**skipped**"), ("teardown", "failed", "**failed**")],
)
def test_each_result_is_kept_at_once(reliability, when, outcome, cell):
    reliability.Soak(1, 0.5).pytest_runtest_logreport(report(outcome, when, kills=5))
    assert json.loads(reliability.FILE.read_text())[TEST]["share"] == 0.5
    assert f"| kills of all: one | 5 kills | 50% | {cell} | 2 | abc1234, " in reliability.PAGE.read_text()


def test_setup_and_teardown_that_passed_say_nothing(reliability):
    before = reliability.FILE.read_text()
    reliability.Soak(1, 1.0).pytest_runtest_logreport(report(when="setup"))
    assert reliability.FILE.read_text() == before


@pytest.mark.parametrize(
    ("before", "share", "outcome", "after"),
    [
        ((0.2, "passed"), 0.1, "passed", (9, 0.3, 4)),  # goes on
        ((0.2, "failed"), 0.1, "passed", (4, 0.1, 1)),  # behind a failure
        ((0.2, "passed"), 0.1, "failed", (4, 0.1, 1)),  # a failure
        ((1.0, "passed"), 0.1, "passed", (4, 0.1, 1)),  # all was counted
        ((0.2, "passed"), 1.0, "passed", (4, 1.0, 1)),  # a whole soak
    ],
)
def test_slices_add_up_and_each_draws_other_tries(before, share, outcome, after, reliability, monkeypatch):
    monkeypatch.delenv("GLASSHOUSE_SOAK_SLICE", raising=False)
    soak = reliability.Soak(1, share)
    soak.known[TEST] = ended(reliability, *before, slices=3)
    soak.pytest_runtest_protocol(item(TEST))
    soak.pytest_runtest_logreport(report(outcome, kills=4))
    found = soak.known[TEST]
    assert (found.counted["kills"], pytest.approx(found.share), found.slices) == after
    assert (piece() == 3) == (found.slices > 1 or outcome == "failed")


def test_what_does_not_scale_is_whole_at_once(reliability):
    soak = reliability.Soak(1, 0.1)
    soak.pytest_runtest_logreport(report(counted="1 run refused"))
    assert soak.known[TEST].whole
