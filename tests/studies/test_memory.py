"""Memory: a bound splits tasks as a function of network and images, and is kept with the study."""

from __future__ import annotations

import dataclasses
import json

import pytest

from glasshouse import attacks, models
from glasshouse.attacks.engine.matcher import matcher_for
from glasshouse.errors import SettingError
from glasshouse.models.batchnorm import batchnorm_layers
from glasshouse.store import Location
from glasshouse.studies import study
from glasshouse.studies.choices import Choices
from glasshouse.studies.materials import from_dataset
from glasshouse.studies.memory import GIGABYTE, _bytes_of_batch, images_at_once, refuse_too_large
from glasshouse.studies.study import prepare
from glasshouse.studies.tasks import tasks
from glasshouse.types import ImageSpec

SPEC = ImageSpec(3, 32, 32, 10)


def test_wider_networks_leave_room_for_fewer():
    narrow, wide = (images_at_once([(models.create(f"resnet20:width={n}", SPEC), "eval")], SPEC, 1) for n in (4, 8))
    assert 1.5 * wide < narrow < 4 * wide
    assert images_at_once([(models.create("resnet20:width=8", SPEC), "eval")], SPEC, 1e-6) == 1


def test_a_bound_splits_tasks_and_is_kept(plan, tmp_path):
    plan = dataclasses.replace(plan, images=8, memory=0.02, defenses=("none", "prune"))
    opened = prepare(
        plan, Location.of(tmp_path), from_dataset(plan.dataset, 8, 0, size=None, root=None, download=False)
    )
    opened.store.close()
    fitting = json.loads((tmp_path / "choices.json").read_text())["together"]
    assert fitting == Choices.of(tmp_path).together == {"gigabytes": 0.02, "images": fitting["images"]}
    bounded, free = (tasks(opened.cases, most) for most in (2, None))
    assert max(len(task) for task in bounded) == 2
    assert len(bounded) > len(free)


def test_a_batch_is_counted_as_the_engine_counts_it():
    model = models.create("resnet20:width=4", SPEC).eval()
    counted = matcher_for(model, SPEC.shape, SPEC.classes, 5).bytes_per_problem(SPEC.shape)
    assert _bytes_of_batch(model, "eval", SPEC, 5) == pytest.approx(counted, rel=0.01)


def test_a_batch_is_refused_that_alone_takes_more_than_there_is():
    networks = [(models.create("resnet20:width=4", SPEC).eval(), "eval")]
    one, eight = (_bytes_of_batch(*networks[0], SPEC, count) / GIGABYTE for count in (1, 8))
    matching, reading = ([(name, attacks.create(name))] for name in ("invgrad", "fc_inversion"))
    between = (one + eight) / 2
    refuse_too_large(matching, networks, SPEC, 1, between)
    refuse_too_large(reading, networks, SPEC, 8, between)
    with pytest.raises(SettingError, match=r"about [\d.]+ GB for one batch of 8, .*use a smaller --batch"):
        refuse_too_large(matching, networks, SPEC, 8, between)


def test_the_hungriest_network_and_mode_counts():
    model = models.create("resnet20:width=4", SPEC)
    evaluated, trained = (images_at_once([(model, mode)], SPEC, 1) for mode in ("eval", "train"))
    assert trained < evaluated
    assert images_at_once([(model, "eval"), (model, "train")], SPEC, 1) == trained
    assert not any(module.training for module in model.modules())


def test_networks_that_defenses_change_are_counted_in_the_modes_of_the_plan(plan, tmp_path, monkeypatch):
    counted = []
    monkeypatch.setattr(study, "images_at_once", lambda networks, *_: counted.extend(networks) or 1)
    plan = dataclasses.replace(
        plan, model="resnet20:width=4", memory=1.0, batchnorm=("eval", "train"), defenses=("none", "dp_sgd")
    )
    made = from_dataset(plan.dataset, plan.images, 0, size=None, root=None, download=False)
    prepare(plan, Location.of(tmp_path), made).store.close()
    kinds = [(bool(batchnorm_layers(model)), mode) for model, mode in counted]
    assert kinds == [(True, "eval"), (True, "train"), (False, "eval")]
