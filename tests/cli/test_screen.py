"""What people see while they wait, where the output is no terminal."""

from __future__ import annotations

import itertools
import re
from functools import partial

import pytest

from glasshouse.cli import screen


@pytest.fixture
def clock(monkeypatch):
    """A clock that is set by hand."""
    now = [0.0]
    monkeypatch.setattr(screen.time, "monotonic", lambda: now[0])
    return now


@pytest.mark.parametrize(
    ("unit", "lines"),
    [
        ("cases", ["Attacking: 50 of 100 cases (150.0/min, 20 s left)", "Attacking: 100 of 100 cases (150.0/min)"]),
        ("%", ["Attacking: 50 of 100 % (20 s left)", "Attacking: 100 of 100 %"]),
    ],
)
def test_plain_lines_give_a_rate_of_things_and_not_of_per_cent(unit, lines, clock, capsys):
    with screen.counting("Attacking", unit) as advance:
        for seconds, done in ((0, 0), (20, 50), (40, 100)):
            clock[0] = float(seconds)
            advance(done, 100)
    assert capsys.readouterr().err.splitlines() == lines


def test_a_stage_is_timed_from_when_it_begins(clock, capsys):
    with screen.stages() as shown:
        training, attacking = shown.stage("Training", "networks"), shown.stage("Attacking", "cases")
        for seconds, advance, done in ((0, training, 0), (600, training, 2), (600, attacking, 0), (620, attacking, 2)):
            clock[0] = float(seconds)
            advance(done, 2)
    assert capsys.readouterr().err.splitlines() == [
        "Training: 2 of 2 networks (0.2/min)",
        "Attacking: 2 of 2 cases (6.0/min)",
    ]


@pytest.mark.parametrize(("unit", "rate"), [("cases", True), ("%", False)])
def test_a_terminal_shows_a_bar_with_rate_and_time_left(unit, rate, monkeypatch, capsys):
    seconds = itertools.count(step=0.5)
    monkeypatch.setattr(screen, "Console", partial(screen.Console, force_terminal=True, width=120))
    monkeypatch.setattr(screen, "Progress", partial(screen.Progress, get_time=lambda: next(seconds)))
    with screen.counting("Attacking", unit) as advance:
        for done in range(4):
            advance(done, 10)
    shown = capsys.readouterr().err
    assert "3.0/10" in shown
    assert ("cases/min" in shown) == rate
    assert re.search(r"\d:\d\d:\d\d.*\d:\d\d:\d\d", shown)  # elapsed and left
