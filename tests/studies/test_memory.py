"""Memory: a bound splits tasks as a function of network and images, and is kept with the study."""

from __future__ import annotations

import dataclasses
import json

from glasshouse import models
from glasshouse.attacks.engine.matcher import matcher_for
from glasshouse.models.batchnorm import batchnorm_layers
from glasshouse.store import Location
from glasshouse.studies import study
from glasshouse.studies.choices import Choices
from glasshouse.studies.materials import from_dataset
from glasshouse.studies.memory import _bytes_of_batch, images_at_once
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
    assert _bytes_of_batch(model, "eval", SPEC, 5) == counted


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
