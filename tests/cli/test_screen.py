"""What people see while they wait, where the output is no terminal."""

from __future__ import annotations

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
        ("cases", ["Attacking: 50.0 of 100 cases (150.0/min, 20 s left)", "Attacking: 100.0 of 100 cases (150.0/min)"]),
        ("%", ["Attacking: 50.0 of 100 % (20 s left)", "Attacking: 100.0 of 100 %"]),
    ],
)
def test_plain_lines_give_a_rate_of_things_and_not_of_per_cent(unit, lines, clock, capsys):
    with screen.counting("Attacking", unit) as advance:
        for seconds, done in ((0, 0), (20, 50), (40, 100)):
            clock[0] = float(seconds)
            advance(done, 100)
    assert capsys.readouterr().err.splitlines() == lines
