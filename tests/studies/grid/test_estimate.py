"""What a plan will cost is counted exactly, and its hours grow with the work."""

from __future__ import annotations

from dataclasses import replace

from glasshouse.studies.grid import estimate as module
from glasshouse.studies.grid.estimate import estimate


def estimated(grid):
    return estimate(grid, 2, root=None, download=False, progress=lambda done, total: None)


def test_counts_are_those_of_the_study_and_longer_work_costs_more(grid, monkeypatch):
    monkeypatch.setattr(module, "_spent", lambda grid, part, case, attack: 1.0 + 0.01 * attack.steps)
    small = replace(grid, datasets=("digits:size=16",))
    found = estimated(small)
    assert (found.targets, found.cases) == (2, 6)
    longer = estimated(replace(small, epochs=200, checkpoints=(0, 200), attacks=("invgrad:steps=4000",)))
    assert longer.training_hours > 10 * found.training_hours
    assert longer.attacking_hours > 5 * found.attacking_hours
    assert found.tuning_hours == 0
    assert found.hours == (found.training_hours + found.attacking_hours) / 2
