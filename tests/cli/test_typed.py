"""What is typed again: the same words, but no password and no time limit of nothing."""

from __future__ import annotations

import pytest

from glasshouse.cli.typed import same_command


@pytest.mark.parametrize(
    ("typed", "again"),
    [
        ("audit --out a", "audit --out a"),
        ("audit --minutes 0 --out a", "audit --out a"),
        ("audit --minutes 0.0", "audit"),
        ("audit --minutes 5", "audit --minutes 5"),
        ("audit --minutes", "audit --minutes"),
        ("study run s --store postgresql://me:secret@host/x", "study run s --store postgresql://me@host/x"),
    ],
)
def test_the_command_to_go_on(typed, again, monkeypatch):
    monkeypatch.setattr("sys.argv", ["glasshouse", *typed.split()])
    assert same_command() == f"glasshouse {again}"
