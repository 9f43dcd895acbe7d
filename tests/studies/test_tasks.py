"""Cases are grouped by the plan alone, never across what must differ, and nothing finished is done again."""

from __future__ import annotations

import dataclasses

import pytest
from tests.small_grid import SMALL

from glasshouse.errors import ModelError
from glasshouse.store import Location, Store
from glasshouse.studies.audit import Running, audit_plan
from glasshouse.studies.bench import Bench
from glasshouse.studies.grid.program import carry_out
from glasshouse.studies.materials import from_dataset
from glasshouse.studies.runner import keep
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
        assert len({(case.attack, case.weights, case.batchnorm, case.defense) for case in task}) == 1
    sizes = {
        attack: [len(task) for task in made if task[0].attack == attack]
        for attack in ("invgrad:steps=2", "dlg:steps=1")
    }
    assert sizes == {"invgrad:steps=2": [5] * 3, "dlg:steps=1": [1] * 15}


def test_many_images_are_parted_for_two_cores(study):
    cases = [dataclasses.replace(case, images=(place,)) for case in study.cases[:1] for place in range(18)]
    assert [[len(task) for task in tasks(cases[:count])] for count in (8, 9, 16, 18)] == [[8], [4, 5], [8, 8], [9, 9]]


def test_what_a_plan_gains_makes_tasks_of_its_own(study):
    fewer = tasks([case for case in study.cases if case.defense != "gaussian"])
    assert set(fewer) < set(tasks(study.cases))


def attacked(monkeypatch) -> list[str]:
    """The keys of all cases that are attacked from now on."""
    found: list[str] = []
    perform = Bench.perform

    def counted(self, cases, progress):
        found.extend(case.key() for case in cases)
        return perform(self, cases, progress)

    monkeypatch.setattr(Bench, "perform", counted)
    return found


def test_nothing_finished_is_attacked_again(tmp_path, monkeypatch):
    count = attacked(monkeypatch)
    more = dataclasses.replace(SMALL, defenses=("none", "gaussian", "prune"), attacks=(*SMALL.attacks, "dlg:steps=1"))
    for grid in (SMALL, more, more):
        carry_out(grid, tmp_path / "study", Running())
    assert len(count) == len(set(count)) == 2 * 2 * 3 * 2


def test_who_is_interrupted_at_a_write_has_the_whole_task_or_nothing(plan, tmp_path, monkeypatch):
    plan = dataclasses.replace(plan, images=3, attacks=("invgrad:steps=2",), defenses=("none", "prune"))
    count = attacked(monkeypatch)
    finish, writes = Store.finish_all, []

    def interrupted(self, cases):
        writes.append(len(list(cases)))
        if len(writes) == 2:
            raise KeyboardInterrupt
        finish(self, cases)

    monkeypatch.setattr(Store, "finish_all", interrupted)
    with pytest.raises(KeyboardInterrupt):
        audit_plan(plan, tmp_path / "study", Running())
    _, summary = audit_plan(plan, tmp_path / "study", Running())
    assert (summary.found, summary.done) == (3, 3)
    assert writes == [3, 3, 3]
    assert [count.count(key) for key in dict.fromkeys(count)] == [1] * 3 + [2] * 3


def test_who_fails_by_itself_is_tried_again_by_itself(plan, tmp_path, monkeypatch):
    plan = dataclasses.replace(plan, images=3, attacks=("invgrad:steps=2",), defenses=("none",), metrics=("mse",))
    perform = Bench.perform

    def failing(self, cases, progress):
        if any(1 in case.images for case in cases):
            raise ModelError("no")
        return perform(self, cases, progress)

    monkeypatch.setattr(Bench, "perform", failing)
    _, summary = audit_plan(plan, tmp_path / "study", Running())
    assert (summary.done, summary.failed) == (2, 1)
    monkeypatch.setattr(Bench, "perform", perform)
    count = attacked(monkeypatch)
    _, summary = audit_plan(plan, tmp_path / "study", Running())
    assert (summary.found, summary.done, len(count)) == (2, 1, 1)


def test_a_task_cut_short_ends_with_the_same_pictures(plan, tmp_path):
    plan = dataclasses.replace(plan, images=3, attacks=("invgrad:steps=5",), defenses=("none", "gaussian"))
    whole, _ = audit_plan(plan, tmp_path / "whole", Running())
    study = prepare(
        plan, Location.of(tmp_path / "cut"), from_dataset(plan.dataset, 3, 0, size=None, root=None, download=False)
    )
    task = tasks(study.cases)[0]
    assert len(task) > 1
    outcomes = study.bench.perform(task, lambda share: None)
    keep([(task[0], outcomes[0])], study.store, study.album)
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
