"""Memory: a bound splits tasks as a function of network and images, and is kept with the study."""

from __future__ import annotations

import dataclasses
import json

from glasshouse import models
from glasshouse.studies.choices import Choices
from glasshouse.studies.materials import from_dataset
from glasshouse.studies.memory import images_at_once
from glasshouse.studies.study import prepare
from glasshouse.studies.tasks import tasks
from glasshouse.types import ImageSpec

SPEC = ImageSpec(3, 32, 32, 10)


def test_wider_networks_leave_room_for_fewer():
    narrow, wide = (images_at_once(models.create(f"resnet20:width={n}", SPEC), SPEC, 1) for n in (4, 8))
    assert 1.5 * wide < narrow < 4 * wide
    assert images_at_once(models.create("resnet20:width=8", SPEC), SPEC, 1e-6) == 1


def test_a_bound_splits_tasks_and_is_kept(plan, tmp_path):
    plan = dataclasses.replace(plan, images=8, memory=0.02, defenses=("none", "prune"))
    study = prepare(plan, tmp_path, from_dataset(plan.dataset, 8, 0, size=None, root=None, download=False))
    study.store.close()
    fitting = json.loads((tmp_path / "choices.json").read_text())["together"]
    assert fitting == Choices.of(tmp_path).together == {"gigabytes": 0.02, "images": fitting["images"]}
    bounded, free = (tasks(study.cases, most) for most in (2, None))
    assert max(len(task) for task in bounded) == 2
    assert len(bounded) > len(free)
