"""Probes measure membership, linkage and cost of trained networks, keep what they found, and hold nothing back."""

from __future__ import annotations

import dataclasses
import pickle
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from glasshouse import data
from glasshouse.defenses.prune import Prune
from glasshouse.errors import SettingError
from glasshouse.membership.queries import logits
from glasshouse.reports.grid import write_grid_report
from glasshouse.store import DATABASE_FILE, Store
from glasshouse.studies.audit import Running
from glasshouse.studies.calibration import public_images
from glasshouse.studies.grid import probing, targets
from glasshouse.studies.grid.plan import PROBES, Grid
from glasshouse.studies.grid.probes import KINDS, Laboratory, cost, linkage, others_of
from glasshouse.studies.grid.program import carry_out
from glasshouse.studies.grid.results import read_results
from glasshouse.studies.grid.status import Count, status
from glasshouse.studies.grid.targets import Lessons, targets_of, weights_file
from glasshouse.studies.materials import from_dataset, unlike
from glasshouse.studies.networks import trained_network

DATASET = "digits:size=16"


@pytest.fixture(scope="module")
def plan():
    return Grid(
        datasets=(DATASET,),
        models=("tanhnet:width=2,hidden=16",),
        recipes=("none", "csvar", "prune:percent=90,at=training"),
        defenses=("none", "csvar", "prune:percent=90"),
        paired=True,
        training_images=40,
        lr=0.02,
        training_batch=8,
        epochs=20,
        checkpoints=(0, 20),
        images=2,
        attacks=("invgrad:steps=2",),
        metrics=("mse",),
        probes=PROBES,
    )


def make_small(patch):
    """Few steps, rounds and public images: enough to see that everything is measured."""
    patch.setattr(linkage, "STEPS", 4)
    patch.setattr(cost, "ROUNDS", 2)
    patch.setattr(probing, "PUBLIC", 40)


@pytest.fixture(scope="module")
def directory(plan, tmp_path_factory):
    folder = tmp_path_factory.mktemp("probes") / "study"
    with pytest.MonkeyPatch.context() as patch:
        make_small(patch)
        carry_out(plan, folder, Running())
    return folder


@pytest.fixture(scope="module")
def found(directory):
    return read_results(directory)["probes"]


@pytest.fixture(scope="module")
def drawn(plan):
    """The attacked images, and what networks learn from."""
    materials = from_dataset(DATASET, plan.images, plan.seed, size=None, root=None, download=False)
    lessons = Lessons.of(DATASET, plan.training_images, plan.seed, materials.images, root=None, download=False)
    return materials, lessons


def of_kind(found, kind):
    return [one for one in found if one["kind"] == kind]


def test_every_trained_network_and_every_defense_of_images_is_probed_once(plan, found):
    assert all(one["state"] == "done" for one in found), found
    assert [one["recipe"] for one in of_kind(found, "membership")] == list(plan.recipes)
    assert {one["epoch"] for one in of_kind(found, "membership")} == {20}
    assert [one["defense"] for one in of_kind(found, "linkage")] == ["csvar"]
    assert {one["recipe"] for one in of_kind(found, "cost")} == set(plan.recipes)


def test_membership_is_the_area_that_scikit_learn_finds_from_members_and_strangers(directory, found, drawn):
    materials, lessons = drawn
    probe = of_kind(found, "membership")[0]
    network = trained_network(probe["model"], lessons.spec, weights_file(directory, probe["weights"])).eval()
    test = lessons.testing()
    apart = torch.tensor(unlike(test[0], materials.images))
    asked = lessons.training(), tuple(part[apart] for part in test)
    losses = [torch.nn.functional.cross_entropy(logits(network, x), y, reduction="none") for x, y in asked]
    area = roc_auc_score([1] * len(losses[0]) + [0] * len(losses[1]), -torch.cat(losses).numpy())
    auc = probe["queries"]["clean"]["auc"]
    assert auc["mean"] == pytest.approx(area)
    assert auc["low"] < auc["mean"] < auc["high"]
    assert auc["mean"] > 0.6  # forty images, twenty epochs
    assert probe["asked"] == {"members": len(losses[0]), "others": len(losses[1])}


def test_behind_a_defense_of_images_protected_queries_are_asked_as_well(found):
    queries = {one["recipe"]: set(one["queries"]) for one in of_kind(found, "membership")}
    assert queries["csvar"] == {"clean", "protected"}
    assert queries["none"] == queries["prune:percent=90,at=training"] == {"clean"}
    assert all(0 <= one["queries"]["clean"]["test_accuracy"]["mean"] <= 1 for one in of_kind(found, "membership"))


def test_a_laboratory_that_travelled_measures_the_same(plan, directory, found, drawn, monkeypatch):
    make_small(monkeypatch)
    materials, lessons = drawn
    home = probing.laboratory(plan, directory, {DATASET: lessons}, {DATASET: materials}, None)
    away = dataclasses.replace(pickle.loads(pickle.dumps(home.packed())), directory=Path("nowhere"))
    store = Store(directory / DATABASE_FILE)
    networks = probing.trained(targets_of(plan, {DATASET: lessons}), store.targets())
    store.close()
    probe, *_ = KINDS["membership"].planned(plan, networks, away)
    (outcome,) = away.perform([probe], lambda share: None)
    kept = of_kind(found, "membership")[0]
    assert outcome == {name: kept[name] for name in outcome}


def test_strangers_are_neither_attacked_nor_trained_on(drawn):
    materials, lessons = drawn
    doubled = dataclasses.replace(
        lessons,
        test_images=np.concatenate([lessons.images[:1], lessons.test_images]),
        test_labels=np.concatenate([lessons.labels[:1], lessons.test_labels]),
    )
    places = others_of(doubled, materials.images)
    assert 0 not in places
    assert len(places) == len(lessons.test_images) - len(materials.images)
    asked = Laboratory(None, {"d": doubled}, {"d": places}, {}).strangers("d").images
    assert all(unlike(asked, materials.images))


def test_images_that_keep_their_regions_values_are_found_again(found):
    """CSVAR moves values inside regions: their moments tell an image from all others of a gallery."""
    (probe,) = of_kind(found, "linkage")
    assert probe["shares"]["re-identified: region moments"]["mean"] > 0.9
    assert probe["shares"]["F linked: region moments"]["mean"] > 0.9
    assert probe["asked"]["gallery"] == 40


def test_a_defense_that_shares_labels_out_is_linked_too(plan, drawn, monkeypatch):
    """Mixup's images hold less of each: fewer are found than behind csvar."""
    monkeypatch.setattr(linkage, "STEPS", 2)
    materials, lessons = drawn
    public = {DATASET: public_images(DATASET, materials, 40, 1, trained=lessons.training()[0])}
    laboratory = Laboratory(None, {DATASET: lessons}, {}, public)
    (probe,) = KINDS["linkage"].planned(
        replace(plan, defenses=("none", "instahide", "prune:percent=90")), [], laboratory
    )
    (outcome,) = laboratory.perform([probe], lambda share: None)
    assert outcome["shares"]["re-identified: region moments"]["mean"] < 0.5


def test_cost_is_a_ratio_to_the_plain_step(found):
    ratios = {one["recipe"]: one["ratio"] for one in of_kind(found, "cost")}
    assert ratios["csvar"]["mean"] > 0
    assert all(one["plain_seconds"]["mean"] > 0 for one in of_kind(found, "cost"))


def test_cost_is_of_steps_and_protection_alone(drawn, monkeypatch):
    """By a clock that every part moves on by a time of its own: what is done once for a network is not counted."""
    _, lessons = drawn
    clock = Clock()
    monkeypatch.setattr(targets, "time", clock)
    for room, name, seconds in (
        (targets.own, "build", 1000.0),
        (targets.own, "to_weights", 1000.0),
        (targets, "accuracy", 1000.0),
        (import_module("glasshouse.training.fit"), "_step", 1.0),
        (Prune, "on_training", 2.0),
    ):
        monkeypatch.setattr(room, name, clock.after(getattr(room, name), seconds))
    monkeypatch.setattr(cost, "ROUNDS", 2)
    probe = cost.Cost(DATASET, "tanhnet:width=2,hidden=16", "prune:percent=90,at=training", 8)
    found = probe.measured(Laboratory(None, {DATASET: lessons}, {}, {}), lambda share: None)
    assert [found[name]["mean"] for name in ("plain_seconds", "step_seconds", "ratio")] == [1.0, 3.0, 3.0]


class Clock:
    """A clock of the processor that moves on as it is told."""

    def __init__(self):
        self.now = 0.0

    def process_time(self):
        return self.now

    perf_counter = process_time

    def after(self, call, seconds):
        """The same call, which takes so long."""

        def slow(*arguments, **settings):
            self.now += seconds
            return call(*arguments, **settings)

        return slow


def test_a_pruned_message_is_shorter(directory):
    sizes = {one["defense"]: one["message_bytes"]["mean"] for one in read_results(directory)["spent"] if one["epoch"]}
    assert sizes["prune:percent=90"] < 0.2 * sizes["none"]
    assert sizes["csvar"] == sizes["none"]
    assert sizes["none"] % 4 == 0


def test_the_page_has_a_balance_of_every_defense_and_status_counts_probes(directory, plan):
    page = write_grid_report(directory).read_text(encoding="utf-8")
    balance = page.partition('<table id="balance">')[2].partition("</table>")[0]
    assert balance.count("<tr>") == 1 + len(plan.recipes)
    assert "n/a" in balance
    assert page.count("<svg") == 3  # accuracy beside what was seen, beside both leaks, and ROC curves
    assert "What CSVAR does to these images" in page
    assert status(plan, directory).probes == Count(done=7, failed=0, left=0)


def test_what_was_probed_is_found_again_and_a_plan_without_probes_shows_none(plan, directory, monkeypatch):
    def refuse(*arguments):
        raise AssertionError("this was measured already")

    monkeypatch.setattr(Laboratory, "perform", refuse)
    make_small(monkeypatch)
    again = carry_out(plan, directory, Running())
    assert (again.probing.found, again.probing.planned) == (7, 7)
    without = carry_out(replace(plan, probes=()), directory, Running())
    assert without.result.to_json()["probes"] == []
    store = Store(directory / DATABASE_FILE)
    assert sum(one.state == "done" for one in store.probes()) == 7
    store.close()
    carry_out(plan, directory, Running())


def test_a_probe_that_nobody_knows_is_refused(plan):
    with pytest.raises(SettingError, match="membership, linkage, cost"):
        replace(plan, probes=("linking",))


def test_tuning_practises_on_images_that_no_network_was_trained_on(drawn):
    """The training part without a word about it would hand out what the network learned by heart."""
    materials, lessons = drawn
    trained = lessons.training()[0]
    careless = public_images(DATASET, materials, 60, 1)
    assert not all(unlike(careless.images, trained))
    public = public_images(DATASET, materials, 60, 1, trained=trained)
    assert len(public.images) == len(public.labels) == 60
    assert all(unlike(public.images, torch.cat([trained, materials.images])))


def test_where_training_took_every_image_others_of_the_test_part_stand_in(drawn):
    materials, _ = drawn
    everything = data.load(DATASET, split="train")
    trained = everything.batch(range(len(everything)))[0]
    public = public_images(DATASET, materials, 400, 1, trained=trained)
    assert "test part" in public.origin
    assert all(unlike(public.images, torch.cat([trained, materials.images])))
