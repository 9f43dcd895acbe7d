"""What a plan will cost is counted exactly, and its hours grow with the work."""

from __future__ import annotations

from dataclasses import replace

import pytest

from glasshouse.studies.audit import Running
from glasshouse.studies.grid import estimate as module
from glasshouse.studies.grid import probing
from glasshouse.studies.grid.estimate import estimate
from glasshouse.studies.grid.plan import PROBES, Grid
from glasshouse.studies.grid.probes import linkage
from glasshouse.studies.grid.program import carry_out


def estimated(grid):
    return estimate(grid, 2, root=None, download=False, progress=lambda done, total: None)


def test_counts_are_those_of_the_study_and_longer_work_costs_more(grid, monkeypatch):
    monkeypatch.setattr(module, "_spent", lambda grid, part, task, attack: len(task) * (1 + 0.01 * attack.steps))
    small = replace(grid, datasets=("digits:size=16",))
    found = estimated(small)
    assert (found.targets, found.cases) == (2, 6)
    longer = estimated(replace(small, epochs=200, checkpoints=(0, 200), attacks=("invgrad:steps=4000",)))
    assert longer.training_hours > 10 * found.training_hours
    assert longer.attacking_hours > 5 * found.attacking_hours
    assert found.tuning_hours == found.probing_hours == found.probes == 0
    assert found.hours == (found.training_hours + found.attacking_hours) / 2
    assert found.attacking_hours * 3600 == pytest.approx(6 * (1 + 0.01 * 3))


@pytest.mark.parametrize("paired", [False, True])
def test_networks_that_a_defense_changes_are_counted_as_the_study_counts_them(paired, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_spent", lambda grid, part, task, attack: 1.0)
    changed = Grid(
        title="changed",
        datasets=("digits",),
        models=("tanhnet_bn:width=2,hidden=4", "mlp:width=4"),
        recipes=("none", "dp_sgd:epsilon=8"),
        without=("mlp:width=4 | dp_sgd:epsilon=8",),
        training_images=16,
        training_batch=8,
        epochs=1,
        checkpoints=(0, 1),
        images=1,
        attacks=("invgrad:steps=1", "tanhnet_bn:width=2,hidden=4 | gradattack:steps=1"),
        defenses=("none", "dp_sgd:epsilon=8"),
        paired=paired,
        metrics=("mse",),
    )
    found = estimated(changed)
    done = carry_out(changed, tmp_path, Running())
    assert found.targets == done.training.planned == 3
    assert found.cases == done.attacking.planned == done.attacking.done


def test_probes_are_counted_as_the_study_counts_them(grid, tmp_path, monkeypatch):
    """Two networks are asked about members, one defense is looked through, and two recipes are timed."""
    monkeypatch.setattr(linkage, "STEPS", 8)
    monkeypatch.setattr(linkage, "IMAGES", 10)
    monkeypatch.setattr(linkage, "GALLERY", 10)
    monkeypatch.setattr(probing, "PUBLIC", 20)
    probed = replace(grid, datasets=("digits:size=16",), defenses=("none", "csvar"), probes=PROBES)
    found = estimated(probed)
    done = carry_out(probed, tmp_path, Running()).probing
    assert found.probes == done.done == 2 + 1 + 2
    assert 0 < found.probing_hours < 1
