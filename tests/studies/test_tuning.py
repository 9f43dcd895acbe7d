"""Tuning: a coordinate search on public images, kept in the study, never on the attacked ones."""

from __future__ import annotations

import dataclasses
import json
import math

import pytest
import torch
from torch.nn import functional as F

from glasshouse import data
from glasshouse.attacks import attacks
from glasshouse.data.crops import photo_crops
from glasshouse.errors import DataError, ModelError, StudyError, WeightsError
from glasshouse.metrics.mse import MSE
from glasshouse.studies import tuning
from glasshouse.studies.audit import Running, audit_plan
from glasshouse.studies.bench import Bench
from glasshouse.studies.calibration import named_images, public_images
from glasshouse.studies.case import Case
from glasshouse.studies.choices import CHOICES_FILE, Choices
from glasshouse.studies.grid.program import carry_out
from glasshouse.studies.materials import from_dataset, from_tensors


def test_the_search_finds_the_best_of_every_setting_in_turn():
    asked = []

    def loss(attack):
        asked.append(attack)
        return abs(attack.tv - 1e-3) + abs(attack.lr - 0.3) + (not attack.masked) + attack.steps / 1e6

    best, tried = tuning.search(attacks.create("invgrad:steps=100"), loss, fixed_steps=False)
    assert (best.tv, best.lr, best.masked, best.skip, best.steps) == (1e-3, 0.3, True, "none", 50)
    assert len(tried) == len(asked) == len(set(asked))
    fixed, _ = tuning.search(attacks.create("invgrad:steps=100"), loss, fixed_steps=True)
    assert fixed.steps == 100


def test_authors_weights_are_written_out_before_they_are_searched():
    best, _ = tuning.search(attacks.create("gradattack:preset=strong"), lambda one: 0.0, fixed_steps=True)
    assert (best.preset, best.tv, best.bn, best.schedule) == ("own", 0.1, 0.005, "paper")


def test_the_published_loop_is_written_out_before_it_is_searched():
    asked = attacks.create("invgrad:preset=paper,steps=7,sign=false,patience=3")
    best, tried = tuning.search(asked, lambda one: float(one.pace.annealed), fixed_steps=True)
    assert best.pace == asked.pace
    assert (best.preset, best.schedule, best.sign, best.annealed, best.patience) == ("own", "paper", True, False, None)
    assert not any("preset=paper" in one["attack"] for one in tried)
    plain = attacks.create("invgrad:steps=7,patience=3")
    assert plain.tunable() == plain


@pytest.mark.parametrize("size", [(16, 16), (24, 20)])
@pytest.mark.parametrize("channels", [1, 3])
def test_a_photograph_that_is_handed_over_is_not_practised_on(size, channels):
    """By its content: images that are handed over carry no names, and come through other ways of resizing."""
    photos = data.load("photos", size=64).fitted(None, channels)
    attacked = F.interpolate(photos.batch([0, 4])[0], size=size, mode="bilinear", antialias=True)
    noisy = (attacked + 0.02 * torch.randn(attacked.shape, generator=torch.Generator().manual_seed(0))).clamp(0, 1)
    materials = from_tensors(noisy, torch.tensor([0, 1]), 0)
    public = public_images(None, materials, 6, 1)
    expected = photo_crops(materials.spec, 6, 1, without=("astronaut", "motorcycle"))
    assert torch.equal(public.images, expected)


def test_public_images_are_never_the_attacked_ones():
    materials = from_dataset("photos:size=16", 3, 0, size=None, root=None, download=False)
    public = public_images("photos:size=16", materials, 6, 1)
    distances = torch.cdist(public.images.flatten(1), materials.images.flatten(1))
    assert distances.min() > 0.5
    everything = from_dataset("photos:size=16", 10, 0, size=None, root=None, download=False)
    with pytest.raises(DataError, match="attack fewer"):
        public_images("photos:size=16", everything, 6, 1)
    digits = from_dataset("digits", 2, 0, size=None, root=None, download=False)
    assert "crops" in public_images(None, digits, 4, 1).origin


def test_named_public_images_are_practised_on_before_any_others():
    attacked = from_dataset("digits", 3, 0, size=None, root=None, download=False, public="digits")
    public = named_images(attacked, 6, 1)
    known = data.load("digits")
    images, labels = known.batch(range(len(known)))
    apart = torch.cdist(public.images.flatten(1), images.flatten(1))
    assert apart.amin(1).max() < 1e-2
    assert torch.equal(public.labels, labels[apart.argmin(1)])
    assert torch.cdist(public.images.flatten(1), attacked.images.flatten(1)).min() > 0.5
    again = named_images(attacked, 6, 1, trained=public.images[:5])
    assert torch.cdist(again.images.flatten(1), public.images[:5].flatten(1)).min() > 0.5
    assert named_images(attacked, 6, 1, trained=images) is None


def test_named_public_images_of_other_classes_get_labels_that_the_model_has():
    materials = from_dataset("photos:size=16", 2, 0, size=None, root=None, download=False, public="faces")
    assert materials.public_labels is None
    labels = named_images(materials, 50, 1).labels
    assert 0 <= labels.min() < labels.max() < materials.spec.classes
    assert named_images(from_tensors(torch.rand(2, 3, 16, 16), torch.tensor([0, 1]), 0), 6, 1) is None


@pytest.fixture
def quick(monkeypatch, plan):
    monkeypatch.setattr(tuning, "CRITERIA", ("mse",))
    monkeypatch.setattr(attacks.get("invgrad"), "grid", (("tv", (1e-2,)),))
    return dataclasses.replace(plan, tune=True, steps=4, attacks=("invgrad",))


def test_a_tuned_audit_says_so_and_a_resumed_one_tunes_no_more(quick, tmp_path, monkeypatch, caplog):
    quick = dataclasses.replace(quick, public="digits")
    result, _ = audit_plan(quick, tmp_path / "study", Running())
    assert "changes nothing" not in caplog.text
    assert {row.setup.threat.tuning for row in result.rows} == {"tuned"}
    assert {row.setup.attack for row in result.rows} == {"invgrad:steps=4 (tuned)"}
    choices = json.loads((tmp_path / "study" / CHOICES_FILE).read_text())["tuning"]
    assert {one["defense"] for one in choices.values()} == {"none", "gaussian:sigma=0.5"}
    assert {one["criterion"] for one in choices.values()} == {"mse of 6 public images (those that were named)"}
    assert all(one["image_steps"] == 2 * 6 * 4 and len(one["tried"]) == 2 for one in choices.values())
    assert {row.setup.attack_spec for row in result.rows} == {one["chosen"] for one in choices.values()}
    monkeypatch.setattr(tuning, "search", None)
    again, summary = audit_plan(quick, tmp_path / "study", Running())
    assert (summary.found, summary.done) == (4, 0)
    assert [row.value for row in again.rows] == [row.value for row in result.rows]


def test_workers_choose_as_one_process_does(plan, tmp_path):
    plan = dataclasses.replace(plan, tune=True, steps=1, attacks=("invgrad",), images=1, metrics=("mse",))
    runs = {"inline": Running(), "local": Running(engine="local", workers=2)}
    found = {name: audit_plan(plan, tmp_path / name, running)[0].choices["tuning"] for name, running in runs.items()}
    assert len(found["inline"]) == 2
    assert found["inline"] == found["local"]


def test_a_worker_that_cannot_compute_the_criterion_chooses_by_no_other(quick, tmp_path, monkeypatch):
    def metric(name):
        if name == "lpips" and chosen:
            raise WeightsError("no weights here")
        chosen.append(name)
        return MSE()

    chosen = []
    monkeypatch.setattr(tuning, "CRITERIA", ("lpips", "mse"))
    monkeypatch.setattr(tuning, "_metric", metric)
    with pytest.raises(StudyError, match=r"2 of 2 attacks could not be tuned\. The first: no weights here"):
        audit_plan(quick, tmp_path / "study", Running())
    assert chosen == ["lpips"]


def test_what_was_chosen_for_single_images_is_not_taken_for_batches(quick, tmp_path):
    plan = dataclasses.replace(quick, images=3, defenses=("none",))
    plans = [dataclasses.replace(plan, batch=batch) for batch in (1, 2)]  # of three images the last batch has one
    chosen = [set(audit_plan(one, tmp_path / str(one.batch), Running())[0].choices["tuning"]) for one in plans]
    assert [len(groups) for groups in chosen] == [1, 1]
    assert chosen[0] != chosen[1]


def test_a_search_that_fails_leaves_the_others_their_time(quick, tmp_path, monkeypatch):
    choice = tuning._choice

    def fails(search, practice):
        if search.case.defense == "none":
            raise ModelError("too large")
        return choice(search, practice)

    monkeypatch.setattr(tuning, "_choice", fails)
    result, summary = audit_plan(quick, tmp_path / "study", Running())
    assert (summary.done, summary.failed) == (2, 2)
    assert {one.reason for one in result.failures} == {"The attack could not be tuned: too large"}
    assert [one["defense"] for one in Choices.of(tmp_path / "study").tuning.values()] == ["gaussian:sigma=0.5"]


def test_practice_has_noise_and_starts_of_its_own(quick, tmp_path, monkeypatch):
    """Else an attack is tuned to the very noise that hides the attacked images."""
    drawn: dict[str, set[int]] = {"practice": set(), "attack": set()}
    perform, seed = Bench.perform, Case.random_seed

    def performed(self, cases, progress):
        stage = "practice" if isinstance(self, tuning.PracticeBench) else "attack"

        def noted(case, *words):
            drawn[stage].add(seed(case, *words))
            return seed(case, *words)

        with monkeypatch.context() as patch:
            patch.setattr(Case, "random_seed", noted)
            return perform(self, cases, progress)

    monkeypatch.setattr(Bench, "perform", performed)
    audit_plan(quick, tmp_path / "study", Running())
    assert all(drawn.values())
    assert not drawn["practice"] & drawn["attack"]


def test_without_tuning_the_card_says_fixed_settings(plan, tmp_path):
    result, _ = audit_plan(dataclasses.replace(plan, defenses=("none",), images=1), tmp_path / "study", Running())
    assert {row.setup.threat.tuning for row in result.rows} == {"fixed settings"}
    assert not (tmp_path / "study" / CHOICES_FILE).exists()


def test_candidates_that_fail_are_kept_as_null(quick, tmp_path, monkeypatch):
    monkeypatch.setattr(tuning, "_loss", lambda *work: math.inf)
    result, _ = audit_plan(dataclasses.replace(quick, images=1), tmp_path / "study", Running())
    for file in (tmp_path / "study" / CHOICES_FILE, tmp_path / "study" / "audit.json"):
        json.loads(file.read_text(), parse_constant=pytest.fail)
    assert {one["loss"] for choice in result.choices["tuning"].values() for one in choice["tried"]} == {None}


def test_infinite_losses_of_older_choices_are_read_as_null(tmp_path):
    (tmp_path / CHOICES_FILE).write_text('{"schema": 1, "together": {}, "tuning": {"a": {"loss": Infinity}}}')
    assert Choices.of(tmp_path).tuning == {"a": {"loss": None}}
    with pytest.raises(ValueError, match="not JSON compliant"):
        Choices(tmp_path, tuning={"a": {"loss": math.inf}}).save()


def test_minutes_stop_between_attacks_and_keep_what_was_chosen(quick, tmp_path, monkeypatch, caplog):
    now = iter([0.0, 0.0, *[60.0] * 100])
    monkeypatch.setattr("time.monotonic", lambda: next(now))  # the beginning, the first attack, and all that is later
    result, summary = audit_plan(quick, tmp_path / "study", Running(minutes=1))
    assert (summary.done, summary.left) == (0, 4)
    assert len(result.choices["tuning"]) == 1
    assert "1 of 2" in caplog.text
    monkeypatch.undo()
    monkeypatch.setattr(tuning, "CRITERIA", ("mse",))
    monkeypatch.setattr(attacks.get("invgrad"), "grid", (("tv", (1e-2,)),))
    kept = result.choices["tuning"]
    again, summary = audit_plan(quick, tmp_path / "study", Running())
    assert (summary.done, summary.left, again.pending) == (4, 0, 0)
    assert kept.items() <= again.choices["tuning"].items()
    assert {row.setup.attack for row in again.rows} == {"invgrad:steps=4 (tuned)"}


def test_a_grid_counts_the_searches_of_all_its_models_and_data_sets_as_one(quick, grid, tmp_path):
    tuned = dataclasses.replace(
        grid,
        datasets=("digits",),
        models=("lenet:width=4", "mlp:width=4"),
        recipes=("none",),
        epochs=1,
        checkpoints=(1,),
        images=1,
        attacks=("invgrad:steps=2",),
        metrics=("mse",),
        tune=True,
        practice=1,
    )
    told = []
    carry_out(tuned, tmp_path, Running(tuning_progress=lambda done, total: told.append((done, total))))
    assert told == [(0, 2), (1, 2), (2, 2)]
