"""Under which conditions a client shares: what is refused, what the victim sends, what the threat card says."""

from __future__ import annotations

import copy
import dataclasses

import pytest
import torch
from torch.nn import functional as F

from glasshouse import models
from glasshouse.defenses import create
from glasshouse.errors import CapabilityError, SettingError
from glasshouse.store import Location
from glasshouse.studies.bench import blank_observation
from glasshouse.studies.conditions import USUAL, Conditions
from glasshouse.studies.materials import from_dataset
from glasshouse.studies.plan import Plan, from_toml, to_toml
from glasshouse.studies.study import prepare
from glasshouse.studies.victim import share
from glasshouse.types import Capability, ImageSpec

SPEC = ImageSpec(3, 32, 32, 10)
LABELS = torch.tensor([0, 1, 2, 3])


def shared(model, photos, conditions, defense="none", mode="eval"):
    rng = torch.Generator().manual_seed(0)
    return share(
        model, photos, LABELS, create(defense), image=SPEC, batchnorm=mode, give_labels=True, rng=rng,
        conditions=conditions,
    )  # fmt: skip


@pytest.mark.parametrize("mode", ["eval", "train"])
def test_an_update_is_what_torchs_sgd_leaves_behind(photos, mode):
    model, photos = models.create("resnet20:width=4", SPEC).double(), photos.double()  # rounding is another matter
    seen = shared(model, photos, Conditions(local_lr=0.01, local_epochs=2, local_batch=2), mode=mode).seen
    twin = copy.deepcopy(model).train(mode == "train")
    optimizer = torch.optim.SGD(twin.parameters(), lr=0.01)
    for _ in range(2):
        for images, labels in zip(photos.split(2), LABELS.split(2), strict=True):
            optimizer.zero_grad()
            F.cross_entropy(twin(images), labels).backward()
            optimizer.step()
    for (name, before), after in zip(model.named_parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(seen.rounds[0].tensors[name], before - after, rtol=1e-6, atol=1e-9)
    assert seen.rounds[0].local_steps == 4
    assert Capability.GRADIENT not in seen.offers


def test_each_message_is_defended_anew(photos):
    model = models.create("lenet", SPEC)
    seen = shared(model, photos, Conditions(observations=3), "gaussian:sigma=0.1").seen
    first = [next(iter(one.tensors.values())) for one in seen.rounds]
    assert len(first) == 3
    assert not torch.equal(first[0], first[1])
    assert torch.equal(
        *(next(iter(one.tensors.values())) for one in shared(model, photos, Conditions(observations=2)).seen.rounds)
    )


def test_exact_statistics_are_those_of_the_private_batch(photos):
    model = models.create("resnet20:width=4", SPEC)
    seen = shared(model, photos, Conditions(statistics="batch")).seen
    assert Capability.BATCH_STATISTICS in seen.offers
    first = model.network[0]((photos - 0.5) / 0.25)
    torch.testing.assert_close(seen.batch_statistics[0][0], first.mean((0, 2, 3)).detach())
    torch.testing.assert_close(seen.batch_statistics[0][1], first.var((0, 2, 3), unbiased=False).detach())
    assert shared(model, photos, USUAL).seen.batch_statistics is None


@pytest.mark.parametrize(
    ("statistics", "mode", "words"),
    [
        ("running", "eval", "running statistics known"),
        ("running", "train", "running statistics known, batch statistics unknown"),
        ("batch", "train", "running and batch statistics known"),
        ("none", "train", "no statistics known"),
    ],
)
def test_what_is_known_of_batch_norm(photos, statistics, mode, words):
    conditions = Conditions(statistics=statistics)
    assert conditions.known_statistics(mode) == words
    seen = blank_observation(models.create("resnet20:width=4", SPEC), SPEC, 4, mode, "given", conditions)
    assert (Capability.RUNNING_STATISTICS in seen.offers) == (statistics != "none" or mode == "eval")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"local_epochs": 2}, "add --local-lr"),
        ({"local_lr": 0.1, "local_batch": 5}, "local_batch=5"),
        ({"observations": 0}, "observations=0"),
        ({"statistics": "all"}, "statistics=all"),
        ({"memory": 0.0}, "memory=0"),
    ],
)
def test_conditions_that_cannot_be_are_refused(settings, words):
    with pytest.raises(SettingError, match=words):
        Plan(images=4, batch=4, **settings)


def test_a_plan_with_conditions_comes_back_from_its_file(tmp_path):
    plan = Plan(
        images=4, batch=4, local_lr=0.1, local_epochs=2, layers=("a*", "b"), observations=2, tune=True, memory=2.0
    )
    (tmp_path / "study.toml").write_text(to_toml(plan))
    assert from_toml(tmp_path / "study.toml") == plan


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"attacks": ("dlg",), "local_lr": 0.1}, "needs the gradient itself"),
        ({"attacks": ("dlg",), "layers": ("network.0.*",)}, "which is not shared here"),
        ({"attacks": ("invgrad",), "layers": ("nothing*",)}, "fits no parameter"),
        ({"attacks": ("gradattack:statistics=exact",), "model": "resnet20:width=4"}, "--statistics batch"),
        ({"attacks": ("gradattack",), "model": "resnet20:width=4", "defenses": ("dp_sgd:epsilon=inf",)}, "use invgrad"),
    ],
)  # fmt: skip
def test_wrong_combinations_are_refused_before_any_work(plan, tmp_path, changes, words):
    plan = dataclasses.replace(plan, defenses=("none",))
    plan = dataclasses.replace(plan, **changes)
    materials = from_dataset(plan.dataset, 2, 0, size=None, root=None, download=False)
    with pytest.raises((CapabilityError, SettingError, ValueError), match=words):
        prepare(plan, Location.of(tmp_path / "new"), materials)
    assert not (tmp_path / "new").exists()


def test_a_defense_without_batch_norm_has_rows_for_one_mode_only(plan, tmp_path):
    plan = dataclasses.replace(plan, model="resnet20:width=4", defenses=("none", "dp_sgd:epsilon=inf"))
    study = prepare(plan, Location.of(tmp_path), from_dataset(plan.dataset, 2, 0, size=None, root=None, download=False))
    study.store.close()
    modes = {(case.defense, case.batchnorm, case.has_batchnorm) for case in study.cases}
    assert modes == {("none", "eval", True), ("none", "train", True), ("dp_sgd:epsilon=inf", "eval", False)}
