"""The long tests in slices: what is due comes first, each result is kept at once, the page holds what is kept."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

DOCS = Path(__file__).parents[1] / "docs"


@pytest.fixture
def reliability(tmp_path, monkeypatch) -> ModuleType:
    """The script beside a copy of the results."""
    (tmp_path / "results").mkdir()
    script = shutil.copy(DOCS / "generate_reliability.py", tmp_path)
    shutil.copy(DOCS / "results" / "reliability.json", tmp_path / "results")
    spec = importlib.util.spec_from_file_location("generate_reliability", script)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "commit", lambda: "abc1234")
    return module


def ended(reliability, share, result, at):
    return reliability.Result("5 kills", share, result, 1.0, "abc1234", at)


def test_the_page_comes_from_its_file(reliability, monkeypatch):
    monkeypatch.setattr("sys.argv", ["generate_reliability.py", "--minutes", "0"])
    assert reliability.main() == 0
    assert reliability.PAGE.read_text(encoding="utf-8") == (DOCS / "reliability.md").read_text(encoding="utf-8")


def test_what_is_due_comes_first(reliability):
    soak = reliability.Soak(1, 1.0)
    soak.known = {
        "whole": ended(reliability, 1.0, "passed", "2026-01-01"),
        "lately": ended(reliability, 0.1, "passed", "2026-03-01"),
        "long ago": ended(reliability, 0.1, "passed", "2026-02-01"),
        "broken": ended(reliability, 1.0, "failed", "2026-03-01"),
    }
    items = [SimpleNamespace(nodeid=name) for name in (*soak.known, "new")]
    soak.pytest_collection_modifyitems(items)
    assert [item.nodeid for item in items] == ["new", "broken", "long ago", "lately", "whole"]


@pytest.mark.parametrize(("minutes", "answer"), [(1, None), (0, True)])
def test_no_test_begins_when_the_time_is_over(reliability, minutes, answer):
    assert reliability.Soak(minutes, 1.0).pytest_runtest_protocol() is answer


@pytest.mark.parametrize(
    ("when", "outcome", "cell"),
    [("call", "passed", "passed"), ("setup", "skipped", "**skipped**"), ("teardown", "failed", "**failed**")],
)
def test_each_result_is_kept_at_once(reliability, when, outcome, cell):
    name = "tests/test_x.py::test_kills_of_all[one]"
    counted = [("counted", "5 kills")]
    report = pytest.TestReport(name, ("", 0, ""), {}, outcome, None, when, user_properties=counted, duration=2.0)
    reliability.Soak(1, 0.5).pytest_runtest_logreport(report)
    assert json.loads(reliability.FILE.read_text())[name]["share"] == 0.5
    assert f"| kills of all: one | 5 kills | 50% | {cell} | 2 | abc1234, " in reliability.PAGE.read_text()


def test_setup_and_teardown_that_passed_say_nothing(reliability):
    before = reliability.FILE.read_text()
    report = pytest.TestReport("tests/test_x.py::test_y", ("", 0, ""), {}, "passed", None, "setup")
    reliability.Soak(1, 1.0).pytest_runtest_logreport(report)
    assert reliability.FILE.read_text() == before
