"""Tuning: a coordinate search on public images, kept in the study, never on the attacked ones."""

from __future__ import annotations

import dataclasses
import json

import pytest
import torch

from glasshouse.attacks import attacks
from glasshouse.errors import DataError
from glasshouse.studies import tuning
from glasshouse.studies.audit import Running, audit_plan
from glasshouse.studies.calibration import public_images
from glasshouse.studies.choices import CHOICES_FILE
from glasshouse.studies.materials import from_dataset


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


@pytest.fixture
def quick(monkeypatch, plan):
    monkeypatch.setattr(tuning, "CRITERIA", ("mse",))
    monkeypatch.setattr(attacks.get("invgrad"), "grid", (("tv", (1e-2,)),))
    return dataclasses.replace(plan, tune=True, steps=4, attacks=("invgrad",))


def test_a_tuned_audit_says_so_and_a_resumed_one_tunes_no_more(quick, tmp_path, monkeypatch):
    result, _ = audit_plan(quick, tmp_path / "study", Running())
    assert {row.setup.threat.tuning for row in result.rows} == {"tuned"}
    assert {row.setup.attack for row in result.rows} == {"invgrad:steps=4 (tuned)"}
    choices = json.loads((tmp_path / "study" / CHOICES_FILE).read_text())["tuning"]
    assert {one["defense"] for one in choices.values()} == {"none", "gaussian:sigma=0.5"}
    assert all(one["image_steps"] == 2 * 6 * 4 and len(one["tried"]) == 2 for one in choices.values())
    assert {row.setup.attack_spec for row in result.rows} == {one["chosen"] for one in choices.values()}
    monkeypatch.setattr(tuning, "search", None)
    again, summary = audit_plan(quick, tmp_path / "study", Running())
    assert (summary.found, summary.done) == (4, 0)
    assert [row.value for row in again.rows] == [row.value for row in result.rows]


def test_without_tuning_the_card_says_fixed_settings(plan, tmp_path):
    result, _ = audit_plan(dataclasses.replace(plan, defenses=("none",), images=1), tmp_path / "study", Running())
    assert {row.setup.threat.tuning for row in result.rows} == {"fixed settings"}
    assert not (tmp_path / "study" / CHOICES_FILE).exists()
