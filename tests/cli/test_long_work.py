"""Commands that take long, as people wait for them: piped, quiet, logged, interrupted (under Ray: test_ray_engine)."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path

import pytest
from tests.small_grid import SMALL
from typer.testing import CliRunner

from glasshouse.cli import long_work, screen
from glasshouse.cli.main import app
from glasshouse.errors import StudyError
from glasshouse.studies.grid.plan import to_toml

AUDIT = (
    "audit --data photos:size=16 --images 3 --model lenet:width=4 --attack invgrad:steps=2 --defense none --metric mse"
)
STAMP = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d ")


@pytest.fixture
def words(request, tmp_path, monkeypatch):
    """A command with little to do, which says something whenever it advances."""
    monkeypatch.setattr(screen, "PLAIN_EVERY", 0)
    command, engine = request.param
    if command == "audit":
        return [*AUDIT.split(), "--out", str(tmp_path / "audit"), "--engine", engine]
    (tmp_path / "study.toml").write_text(to_toml(SMALL))
    return ["study", "run", str(tmp_path), "--engine", engine]


def logged(file):
    """The lines of a log without their times, which all have."""
    lines = file.read_text(encoding="utf-8").splitlines()
    assert all(map(STAMP.match, lines))
    return [STAMP.sub("", line) for line in lines]


COMMANDS = [("audit", "inline"), ("study", "inline"), ("study", "local")]
either = pytest.mark.parametrize("words", COMMANDS, indirect=True, ids=" ".join)


@either
def test_piped_and_logged_alike_with_rate_and_time_left_and_quiet_when_asked(words, tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["glasshouse", "audit"])
    log = tmp_path / "log"
    done = CliRunner().invoke(app, [*words, "--log", str(log)])
    assert done.exit_code == 0, done.output
    lines = done.stderr.splitlines()
    assert any(re.fullmatch(r"Attacking: [\d.]+ of \d cases \(\d+\.\d/min, \d+ s left\)", line) for line in lines)
    first, *between, last = logged(log)
    assert (first, last) == ("glasshouse audit", "Ended.")
    assert sorted(between) == sorted(lines)  # workers report in a thread of its own
    quiet = CliRunner().invoke(app, [*words, "--quiet", "--log", str(tmp_path / "again")])
    assert (quiet.exit_code, quiet.stderr) == (0, "")
    assert any(line.startswith("Attacking: ") for line in logged(tmp_path / "again"))


@pytest.mark.parametrize("words", COMMANDS[:2], indirect=True, ids=" ".join)
def test_an_interrupt_is_logged_and_ends_with_130_and_what_is_finished(words, tmp_path, monkeypatch):
    def stop(*given, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("glasshouse.studies.audit.run", stop)
    done = CliRunner().invoke(app, [*words, "--quiet", "--log", str(tmp_path / "log")])
    assert done.exit_code == 130
    assert "Interrupted. What is finished is kept in " in done.stderr
    assert logged(tmp_path / "log")[-1] == "Interrupted."
    (result,) = (path for path in tmp_path.rglob("*.json") if path.name in ("audit.json", "study.json"))
    assert json.loads(result.read_text())["pending"]


@pytest.mark.parametrize("words", COMMANDS[:1], indirect=True)
def test_errors_and_warnings_are_logged(words, tmp_path, monkeypatch):
    def fail(*given, **options):
        logging.getLogger("glasshouse.studies.scoring").warning("a picture is gone")
        raise StudyError("The disk is full.")

    monkeypatch.setattr("glasshouse.studies.audit.run", fail)
    done = CliRunner().invoke(app, [*words, "--quiet", "--log", str(tmp_path / "log")])
    assert isinstance(done.exception, StudyError)
    assert logged(tmp_path / "log")[-2:] == ["a picture is gone", "The disk is full."]
    assert not logging.getLogger("glasshouse").handlers


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device here is always full")
@pytest.mark.parametrize("words", COMMANDS[:1], indirect=True)
def test_a_log_on_a_full_disk_does_not_end_the_work(words):
    done = CliRunner().invoke(app, [*words, "--log", "/dev/full"])
    assert done.exit_code == 0
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("words", COMMANDS[:1], indirect=True)
def test_a_log_that_cannot_be_written_is_refused_before_any_work(words, tmp_path):
    done = CliRunner().invoke(app, [*words, "--log", str(tmp_path / "nowhere" / "log")])
    assert "choose another --log" in str(done.exception)
    assert not (tmp_path / "audit").exists()


def test_a_crash_is_written_down_too(tmp_path):
    file = tmp_path / "run.log"
    with pytest.raises(ZeroDivisionError), long_work.logged(file):
        1 / 0  # noqa: B018 - a fault of ours
    assert "Ended by ZeroDivisionError: division by zero" in file.read_text()
