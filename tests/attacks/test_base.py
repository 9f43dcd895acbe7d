"""What every attack keeps: same seed same result, missing needs refused, results in range, no peeking."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch
from torch import nn

from glasshouse import models
from glasshouse.attacks import attacks
from glasshouse.attacks.base import InversionAttack, best, updatable, with_steps
from glasshouse.errors import AttackError, CapabilityError, ModelError
from glasshouse.studies.bench import blank_observation
from glasshouse.types import Capability, ImageSpec, Observation, Reconstruction

SPEC = ImageSpec(3, 16, 16, 10)
#: Models for attacks that refuse the LeNet on which all others are tried.
VICTIMS = {
    "cafe": "vertical:width=4,units=8",
    "fc_inversion": "mlp:width=32",
    "gradattack": "resnet20:width=4",
    "imprint": "imprinted:bins=64",
    "rgap": "rgapnet",
}
CLOSED_FORM = {"fc_inversion", "imprint", "rgap"}
ONE_IMAGE = {"fc_inversion", "learned", "rgap"}


def short(name: str) -> InversionAttack:
    return with_steps(attacks.create(name), 2)


@pytest.fixture
def watch(name, observe):
    """What a server sees that has all that the attack needs."""

    def seen(model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> Observation:
        found = observe(model, images, labels, give=Capability.LABELS in attacks.get(name).needs)
        batches = attacks.create(name).batches(len(images))
        if batches is not None:
            parts = [(batch, observe(model, images[list(batch)], labels[list(batch)])) for batch in batches]
            rounds = [dataclasses.replace(part.rounds[0], indices=batch) for batch, part in parts]
            found = dataclasses.replace(found, rounds=tuple(rounds))
        return dataclasses.replace(found, public=torch.rand(6, *images.shape[1:], generator=rng()))

    return seen


@pytest.fixture
def victim(name, lenet) -> nn.Module:
    return models.create(VICTIMS[name], SPEC) if name in VICTIMS else lenet


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("name", attacks.names())
def test_same_seed_same_result(name, victim, small_photos, watch):
    seen = watch(victim, small_photos[:1], torch.tensor([3]))
    first, second, other = (short(name)(victim, seen, rng=rng(seed)) for seed in (0, 0, 1))
    assert torch.equal(first.images, second.images)
    assert first.objective == second.objective
    assert torch.equal(first.images, other.images) == (name in CLOSED_FORM)


@pytest.mark.parametrize("name", attacks.names())
def test_missing_needs_are_refused_before_any_work(name, victim, small_photos, watch):
    seen = watch(victim, small_photos[:1], torch.tensor([3]))
    update = dataclasses.replace(seen.rounds[0], kind="update")  # of a learning rate that nobody told
    blind = dataclasses.replace(seen, rounds=(update,), labels=None)
    with pytest.raises(CapabilityError, match=rf"needs (the )?{min(attacks.get(name).needs - blind.offers)}"):
        short(name)(victim, blind, rng=rng())


def test_a_refused_update_names_the_attacks_that_take_one(lenet, small_photos, observe):
    seen = observe(lenet, small_photos[:1], torch.tensor([3]))
    update = dataclasses.replace(seen.rounds[0], kind="update", learning_rate=0.1)
    with pytest.raises(CapabilityError, match=r"leave --local-lr out.*gradattack or invgrad or unshuffle"):
        short("dlg").refuse(lenet, dataclasses.replace(seen, rounds=(update,)))


def test_the_threat_model_names_the_attacks_that_take_updates_and_some_layers():
    text = (Path(__file__).parents[2] / "docs" / "threat-model.md").read_text()
    known = [attacks.get(name) for name in attacks.names()]
    assert [one.name for one in known if one.takes_some_layers] == updatable()
    assert f"taken by {', '.join(updatable()[:-1])} and {updatable()[-1]}." in text


@pytest.mark.parametrize("attack", ["invgrad", "idlg"])
@pytest.mark.parametrize("labels", ["recovered", "given"])
def test_labels_that_cannot_be_recovered_are_refused_before_any_work(attack, labels):
    head = nn.Sequential(nn.Conv2d(3, 10, 16), nn.Sigmoid(), nn.Flatten())  # classifies without a linear layer
    seen = blank_observation(head, SPEC, 1, "eval", labels)
    if (attack, labels) == ("invgrad", "given"):
        short(attack).refuse(head, seen)
        return
    with pytest.raises(CapabilityError, match=r"Labels cannot be recovered.*--labels given.*labels=optimised"):
        short(attack).refuse(head, seen)


@pytest.mark.parametrize("name", sorted(VICTIMS))
def test_a_model_that_cannot_be_attacked_is_refused_with_what_to_do_instead(name, lenet, small_photos, watch):
    seen = watch(lenet, small_photos[:1], torch.tensor([3]))
    with pytest.raises(ModelError, match=r"(?i)use .*invgrad"):
        short(name)(lenet, seen, rng=rng())


@pytest.mark.parametrize("name", attacks.names())
def test_the_model_is_left_as_it_was(name, victim, small_photos, watch):
    before = {key: value.clone() for key, value in victim.state_dict().items()}
    short(name)(victim, watch(victim, small_photos[:1], torch.tensor([3])), rng=rng())
    assert all(torch.equal(before[key], value) for key, value in victim.state_dict().items())
    assert not victim.training
    assert all(parameter.grad is None for parameter in victim.parameters())


@pytest.mark.parametrize("name", attacks.names())
def test_batches_and_progress(name, victim, small_photos, watch):
    shares: list[float] = []
    batch = 1 if name in ONE_IMAGE else 3
    seen = watch(victim, small_photos[:batch], torch.tensor([1, 2, 2])[:batch])
    result = short(name)(victim, seen, rng=rng(), progress=shares.append)
    assert result.images.shape == (batch, 3, 16, 16)
    assert shares[-1] == pytest.approx(1.0)
    assert shares == sorted(shares)


@pytest.mark.parametrize("name", sorted(ONE_IMAGE))
def test_batches_are_refused_where_only_one_image_can_be_found(name, victim, small_photos, watch):
    seen = watch(victim, small_photos[:3], torch.tensor([1, 2, 2]))
    with pytest.raises(CapabilityError, match=r"one image, not of 3.*use a batch of 1"):
        short(name)(victim, seen, rng=rng())


def test_an_observation_has_no_room_for_the_truth():
    assert {field.name for field in dataclasses.fields(Observation)} == {
        "rounds", "image", "batch_size", "batchnorm", "labels", "public", "defense",
        "running_statistics", "batch_statistics",
    }  # fmt: skip


def test_offers_say_what_the_attacker_has(lenet, small_photos, observe):
    seen = observe(lenet, small_photos[:1], torch.tensor([3]), give=True)
    assert seen.offers == {Capability.GRADIENT, Capability.LABELS, Capability.RUNNING_STATISTICS}


def test_the_best_restart_is_the_attackers_own_choice():
    nan = torch.full((1, 1, 2, 2), float("nan"))
    tries = [
        Reconstruction(torch.zeros(1, 1, 2, 2), 0.5),
        Reconstruction(torch.ones(1, 1, 2, 2), 0.25),
        Reconstruction(nan, 0.0),
        Reconstruction(torch.zeros(1, 1, 2, 2), float("nan")),
    ]
    assert best("some", tries) is tries[1]
    with pytest.raises(AttackError, match="diverged in every restart"):
        best("some", tries[2:])


def test_steps_override():
    assert with_steps(attacks.create("invgrad"), 7).steps == 7
    assert with_steps(attacks.create("invgrad:steps=9"), None).steps == 9
