"""Cases are grouped by the plan alone, never across what must differ, and a task cut short is done again whole."""

from __future__ import annotations

import dataclasses

import pytest

from glasshouse.store import Location
from glasshouse.studies.audit import Running, audit_plan
from glasshouse.studies.materials import from_dataset
from glasshouse.studies.study import prepare
from glasshouse.studies.tasks import tasks


@pytest.fixture
def study(plan, tmp_path):
    plan = dataclasses.replace(
        plan, images=5, attacks=("invgrad:steps=2", "dlg:steps=1"), defenses=("none", "gaussian", "prune")
    )
    study = prepare(plan, Location.of(tmp_path), from_dataset(plan.dataset, 5, 0, size=None, root=None, download=False))
    yield study
    study.store.close()


def test_every_case_is_in_one_task_of_its_kind(study):
    made = tasks(study.cases)
    assert sorted(case.key() for task in made for case in task) == sorted(case.key() for case in study.cases)
    for task in made:
        assert len({(case.attack, case.weights, case.batchnorm) for case in task}) == 1
    sizes = {
        attack: [len(task) for task in made if task[0].attack == attack]
        for attack in ("invgrad:steps=2", "dlg:steps=1")
    }
    assert sizes == {"invgrad:steps=2": [8, 7], "dlg:steps=1": [1] * 15}


def test_a_defense_that_changes_the_network_stays_apart(study):
    cases = [
        dataclasses.replace(case, defense_spec="dp_sgd") if case.defense == "prune" else case for case in study.cases
    ]
    for task in tasks(cases):
        assert len({case.defense_spec == "dp_sgd" for case in task}) == 1


def test_a_task_cut_short_ends_with_the_same_pictures(plan, tmp_path):
    plan = dataclasses.replace(plan, images=3, attacks=("invgrad:steps=5",), defenses=("none", "gaussian"))
    whole, _ = audit_plan(plan, tmp_path / "whole", Running())
    study = prepare(
        plan, Location.of(tmp_path / "cut"), from_dataset(plan.dataset, 3, 0, size=None, root=None, download=False)
    )
    task = tasks(study.cases)[0]
    assert len(task) > 1
    from glasshouse.studies.runner import keep

    outcomes = study.bench.perform(task, lambda share: None)
    keep(task[0], outcomes[0], study.store, study.album)
    study.store.close()
    cut, summary = audit_plan(plan, tmp_path / "cut", Running())
    assert (summary.found, summary.done) == (1, 5)
    assert [row.value for row in cut.rows] == [row.value for row in whole.rows]


def test_models_with_the_same_weights_stay_apart(study):
    """Fresh weights depend on shapes and the seed alone, so two models may have the same."""
    twins = [dataclasses.replace(case, architecture="another", dataset="another") for case in study.cases]
    for task in tasks([*study.cases, *twins]):
        assert len({(case.architecture, case.dataset) for case in task}) == 1


def test_restarts_take_memory_too(study):
    thrice = [dataclasses.replace(case, attack_spec="invgrad:steps=2,restarts=3") for case in study.cases]
    once = [dataclasses.replace(case, attack_spec="invgrad:steps=2,restarts=1") for case in study.cases]
    assert [max(len(task) for task in tasks(cases, 6)) for cases in (once, thrice)] == [5, 2]
    assert max(len(task) for task in tasks(thrice, 2)) == 1
