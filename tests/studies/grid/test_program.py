"""A grid study trains and attacks everything once, keeps it, and goes on where it stopped."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.small_grid import SMALL

from glasshouse import data
from glasshouse.errors import ModelError, SettingError, StudyError
from glasshouse.files import sole_owner
from glasshouse.models.imprinted import Imprinted
from glasshouse.store import DATABASE_FILE, Store
from glasshouse.studies import presets, tuning
from glasshouse.studies.audit import Running
from glasshouse.studies.bench import Bench
from glasshouse.studies.grid.plan import to_toml
from glasshouse.studies.grid.program import carry_out
from glasshouse.studies.grid.status import status
from glasshouse.studies.grid.targets import SPELLINGS, Lessons, School, Target, targets_of
from glasshouse.studies.materials import from_dataset
from glasshouse.types import no_progress


def results(directory):
    """What a study found, without the time that it took."""
    found = json.loads((directory / "study.json").read_text())
    return found["rows"], found["identified"], [{**one, "seconds": None} for one in found["targets"]]


def records(directory, kind):
    store = Store(directory / DATABASE_FILE)
    try:
        return getattr(store, kind)()
    finally:
        store.close()


@pytest.fixture
def idle(monkeypatch):
    """A machine on which nothing is trained and nothing attacked."""

    def refuse(*arguments):
        raise AssertionError("this was done already")

    monkeypatch.setattr(School, "perform", refuse)
    monkeypatch.setattr(Bench, "perform", refuse)


def test_what_is_done_is_found_again(grid, study, idle):
    before = results(study)
    done = carry_out(grid, study, Running())
    assert (done.training.found, done.attacking.found) == (4, 12)
    assert results(study) == before


def test_a_fresh_network_is_attacked_once_whatever_the_recipes(finished):
    rounds = [one.described["round"] for one in records(finished, "cases")]
    assert rounds.count("fresh, seed 0") == 4  # two images of two data sets
    assert len(rounds) == 12


def test_a_fresh_network_waits_for_that_of_the_first_recipe(grid, tmp_path, monkeypatch):
    """Another recipe may begin with another network, and a study that goes on must not have attacked that."""
    real = School.perform

    def fail_first(school, task, progress):
        if task[0].recipe == "none":
            raise ModelError("not today")
        return real(school, task, progress)

    one = replace(grid, datasets=("digits:size=16",))
    with monkeypatch.context() as patched:
        patched.setattr(School, "perform", fail_first)
        carry_out(one, tmp_path, Running())
    assert not any(case.described["round"].startswith("fresh") for case in records(tmp_path, "cases"))
    carry_out(one, tmp_path, Running())
    assert any(case.described["round"].startswith("fresh") for case in records(tmp_path, "cases"))


def test_networks_that_have_not_learned_are_left_in_peace(grid, study):
    """What they show is what a network shows that nobody would use."""
    right = [one.outcome["accuracy"].items() for one in records(study, "targets")]
    shares = sorted(share for one in right for _, share in one)
    times = 10 * (shares[0] + shares[-1]) / 2  # of ten classes
    carry_out(replace(grid, learned=times), study, Running())
    networks = {
        (facts["dataset"], Target(**{**facts, "checkpoints": ()}).round(epoch)): one.outcome["accuracy"][str(epoch)]
        for one in records(study, "targets")
        for facts in [{name: value for name, value in one.described.items() if name != SPELLINGS}]
        for epoch in facts["checkpoints"]
    }
    attacked = {(one.described["dataset"], one.described["round"]) for one in records(study, "cases") if one.planned}
    assert attacked == {name for name, share in networks.items() if share >= times / 10}
    assert 0 < len(attacked) < len(networks)


def test_damaged_weights_are_trained_again_to_the_same_result(grid, study):
    before = results(study)
    name = records(study, "targets")[-1].outcome["weights"]["2"]
    (study / "models" / f"{name}.safetensors").write_bytes(b"damaged")
    done = carry_out(grid, study, Running())
    assert (done.training.done, done.training.found) == (1, 3)
    assert results(study) == before


@pytest.mark.parametrize("place", ["store.after_commit:3", "store.before_commit:6"])  # a network, a case
def test_a_killed_run_goes_on_to_the_same_numbers(place, grid, finished, tmp_path, glasshouse):
    directory = tmp_path / "study"
    directory.mkdir()
    part = replace(grid, datasets=grid.datasets[:1], recipes=("none",), checkpoints=(2,))
    (directory / "study.toml").write_text(to_toml(part))
    words = "study", "run", str(directory), "--engine", "inline", "--quiet"
    assert glasshouse(*words, GLASSHOUSE_FAILPOINT=place).returncode < 0
    again = glasshouse(*words)
    assert again.returncode == 0, again.stderr
    names = part.datasets[0], "none", 2
    whole = [row for row in results(finished)[0] if (row["dataset"], row["recipe"], row["epoch"]) == names]
    assert results(directory)[0] == whole


def test_more_images_are_refused_and_nothing_of_the_study_changes(tmp_path):
    """They would not be trained on, so that every network were another."""
    carry_out(SMALL, tmp_path, Running())
    before, more = results(tmp_path), replace(SMALL, images=3)
    (tmp_path / "study.toml").write_text(to_toml(more))  # as somebody who edits the plan
    with pytest.raises(StudyError, match=r"began with 2 images.*leave 'images' as it was"):
        carry_out(more, tmp_path, Running())
    (tmp_path / "study.toml").write_text(to_toml(SMALL))
    done = carry_out(SMALL, tmp_path, Running())
    assert (done.training.found, done.attacking.found) == (1, 4)
    assert results(tmp_path) == before


def test_two_runs_at_once_are_refused(grid, study):
    with sole_owner(study), pytest.raises(StudyError, match="Another run"):
        carry_out(grid, study, Running())


def test_a_recipe_that_acts_on_sharing_only_is_refused_before_anything_is_written(grid, tmp_path):
    idle = replace(grid, recipes=("gaussian:sigma=0.1",))
    with pytest.raises(SettingError, match="at=training"):
        carry_out(idle, tmp_path / "study", Running())
    assert not (tmp_path / "study" / "study.toml").exists()


def learned(name: str) -> Lessons:
    return Lessons.of(name, 16, 0, data.load(name).batch(range(2))[0], root=None, download=False)


def test_nothing_attacked_is_trained_on():
    """Photographs have one part only: what is attacked is left out of training."""
    attacked = data.load("photos:size=16").batch(range(2))[0]
    images, _ = learned("photos:size=16").training()
    assert len(images) == 8
    assert (images[:, None] - attacked).abs().amax((2, 3, 4)).min() > 0.1


def test_others_are_trained_on_where_all_that_were_drawn_are_attacked():
    digits = data.load("digits:split=train")
    attacked = digits.batch(digits.spread(40, seed=0))[0]
    found = Lessons.of("digits:split=train", 16, 0, attacked, root=None, download=False)
    images, labels = found.training()
    assert len(images) == len(labels) == 16
    assert (images[:, None] - attacked).abs().amax((2, 3, 4)).min() > 0
    untouched = Lessons.of("digits:split=train", 16, 0, attacked[:0], root=None, download=False)
    assert torch.equal(untouched.training()[0], digits.batch(digits.spread(16, seed=0))[0])


def test_checkpoints_are_the_same_every_time(grid):
    lessons = {name: learned(name) for name in grid.datasets}
    target = targets_of(grid, lessons)[1]
    first, second = School(lessons).perform([target, target], no_progress)
    assert first.weights == second.weights
    assert first.weights.keys() == {0, 2}
    assert first.weights[0] != first.weights[2]


def test_when_the_time_is_over_nothing_is_begun(grid, tmp_path):
    done = carry_out(grid, tmp_path / "study", Running(minutes=0))
    assert (done.training.left, done.attacking.planned) == (4, 0)
    found = json.loads((tmp_path / "study" / "study.json").read_text())
    assert [one["state"] for one in found["targets"]] == ["pending"] * 4


@pytest.mark.parametrize(
    ("stage", "most", "states"), [("training_progress", 1, ["done", "pending"]), ("progress", 2, ["done"] * 2)]
)
def test_an_interrupted_run_writes_down_what_is_finished(stage, most, states, grid, tmp_path):
    def stop(done, total):
        if done > most:  # in the middle of the next
            raise KeyboardInterrupt

    part = replace(grid, datasets=grid.datasets[:1])
    with pytest.raises(KeyboardInterrupt):
        carry_out(part, tmp_path / "study", Running(**{stage: stop}))
    found = json.loads((tmp_path / "study" / "study.json").read_text())
    assert [one["state"] for one in found["targets"]] == states
    assert (found["seconds"] > 0) == (stage == "progress")
    assert found["pending"]


def test_an_edited_plan_goes_on_and_what_it_leaves_out_is_kept_but_not_shown(grid, study):
    smaller = replace(grid, recipes=("none",), defenses=("none", "prune:percent=90"))
    done = carry_out(smaller, study, Running())
    assert (done.training.planned, done.training.found) == (2, 2)
    assert (done.attacking.found, done.attacking.done) == (8, 8)
    assert {row["recipe"] for row in done.result.to_json()["rows"]} == {"fresh", "none"}
    assert sum(not one.planned for one in records(study, "cases")) == 4


def test_a_lost_picture_that_the_plan_no_longer_asks_for_stops_nothing(tmp_path):
    grid = replace(SMALL, attacks=("invgrad:steps=2", "dlg:steps=2"), metrics=("mse",))
    carry_out(grid, tmp_path, Running())
    dropped = {one.key for one in records(tmp_path, "cases") if one.described["attack"] == "dlg:steps=2"}
    lost = next(one for one in records(tmp_path, "reconstructions") if one.case_key in dropped)
    next((tmp_path / "images").rglob(Path(lost.file).name)).unlink()
    less = replace(grid, attacks=("invgrad:steps=2",), metrics=("mse", "psnr"))
    assert carry_out(less, tmp_path, Running()).attacking.failed == 0
    assert carry_out(replace(grid, metrics=("mse", "psnr")), tmp_path, Running()).attacking.done == 1  # made again


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        (
            {"models": ("lenet:width=4", "lenet:width=04")},
            "models has 'lenet:width=4' and 'lenet:width=04', which mean",
        ),
        ({"recipes": ("crop", "crop/none")}, "recipes has 'crop' and 'crop/none'"),
        ({"defenses": ("prune", "prune:percent=70")}, "defenses has 'prune' and"),
        ({"attacks": ("invgrad:steps=2", "lenet:width=4 | invgrad:steps=02")}, "attacks has 'invgrad:steps=2' and"),
    ],
)
def test_two_ways_to_write_one_thing_are_refused(changed, match, tmp_path):
    with pytest.raises(SettingError, match=match):
        carry_out(replace(SMALL, **changed), tmp_path, Running())


def test_a_search_that_fails_costs_its_own_cases_only(tmp_path, monkeypatch):
    choice = tuning._choice

    def fails(search, practice):
        if search.case.defense == "prune":
            raise ModelError("too large")
        return choice(search, practice)

    grid = replace(SMALL, attacks=("invgrad:steps=1",), checkpoints=(0,), defenses=("none", "prune"), tune=True)
    with monkeypatch.context() as patch:
        patch.setattr(tuning, "_choice", fails)
        done = carry_out(grid, tmp_path, Running())
    assert (done.attacking.done, done.attacking.failed, done.attacking.left) == (2, 2, 0)
    assert {one.setup.defense for one in done.result.failures} == {"prune"}
    assert all("could not be tuned: too large" in one.reason for one in done.result.failures)
    again = carry_out(grid, tmp_path, Running())
    assert (again.attacking.found, again.attacking.done, again.result.failures) == (2, 2, ())


def test_paired_attacks_each_recipe_behind_its_own_defense(grid, study):
    defenses = ("none", "prune:percent=90")
    done = carry_out(replace(grid, defenses=defenses, paired=True), study, Running())
    found = {(row["recipe"], row["defense"]) for row in done.result.to_json()["rows"]}
    trained = {pair for pair in found if pair[0] != "fresh"}
    assert trained == set(zip(grid.recipes, defenses, strict=True))
    with pytest.raises(SettingError, match="paired"):
        replace(grid, paired=True)


def test_a_recipe_that_a_model_is_left_out_of_is_neither_trained_nor_attacked(tmp_path):
    grid = replace(
        SMALL,
        models=("lenet:width=4", "mlp"),
        recipes=("none", "prune:percent=50,at=training"),
        without=("mlp | prune:percent=50,at=training",),
        checkpoints=(1,),
    )
    done = carry_out(grid, tmp_path / "study", Running())
    assert done.training.planned == 3
    assert {(row["model"], row["recipe"]) for row in done.result.to_json()["rows"]} == {
        ("lenet:width=4", "none"),
        ("lenet:width=4", "prune:percent=50,at=training"),
        ("mlp", "none"),
    }
    assert (status(grid, tmp_path / "study").targets.done, status(grid, tmp_path / "study").targets.left) == (3, 0)


def test_a_network_that_is_trained_otherwise_than_before_has_another_key(monkeypatch):
    grid = replace(SMALL, models=("imprinted:skip=true", "lenet:width=4"))
    lessons = {
        name: Lessons.of(name, 16, 0, torch.zeros(0, 1, 16, 16), root=None, download=False) for name in grid.datasets
    }
    now = {target.model: target.key() for target in targets_of(grid, lessons)}
    monkeypatch.setattr(Imprinted, "version", 1)
    before = {target.model: target.key() for target in targets_of(grid, lessons)}
    assert now["lenet:width=4"] == before["lenet:width=4"]
    assert now["imprinted:skip=true"] != before["imprinted:skip=true"]


def test_an_attack_for_one_model_leaves_the_others_alone(tmp_path):
    attacks = "mlp | fc_inversion", "lenet:width=4 | invgrad:steps=1", "invgrad:steps=2"
    grid = replace(SMALL, models=("lenet:width=4", "mlp"), attacks=attacks, checkpoints=(0,))
    found = carry_out(grid, tmp_path / "study", Running()).result.to_json()["rows"]
    assert {(row["model"], row["attack"]) for row in found} == {
        ("lenet:width=4", "invgrad:steps=1"),
        ("lenet:width=4", "invgrad:steps=2"),
        ("mlp", "fc_inversion"),
        ("mlp", "invgrad:steps=2"),
    }


def test_study_json_has_accuracy_beside_leakage_and_no_list_of_images(finished):
    found = json.loads((finished / "study.json").read_text())
    assert found["schema"] == 2
    assert not found.keys() & {"images", "per_image"}
    assert all(0 <= row["accuracy"] <= 1 for row in found["rows"])
    assert {row["images"] for row in found["rows"]} == {2}
    assert (found["pending"], found["failures"]) == (0, [])


@pytest.mark.parametrize("name", ["semsim", "lessons", "defenses"])
def test_every_data_set_of_a_preset_has_images_to_attack_and_others_to_train_on(name, real_data):
    grid = presets.create(name, "laptop")
    for dataset in grid.datasets:
        attacked = from_dataset(dataset, grid.images, grid.seed, size=None, root=real_data, download=False).images
        assert len(attacked) == grid.images
        assert Lessons.of(dataset, grid.training_images, grid.seed, attacked, root=real_data, download=False)
