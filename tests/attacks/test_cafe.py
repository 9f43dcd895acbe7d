"""CAFE takes a batch apart that DLG cannot, where workers hold parts of every image and indices are known."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import nn

from glasshouse import data, defenses, models
from glasshouse.attacks import attacks
from glasshouse.attacks.cafe import met, nearest_labels
from glasshouse.errors import CapabilityError, ModelError, SettingError
from glasshouse.functional.indexed import layer_inputs, loss_gradients, membership_shares
from glasshouse.metrics import create as create_metric
from glasshouse.studies.assignment import assigned
from glasshouse.studies.victim import share
from glasshouse.types import Observation

BATCH = 8
SMALL = "vertical:width=6,units=6"  # fewer units than images: one batch alone would not tell them apart


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture(scope="module")
def digits() -> tuple[torch.Tensor, torch.Tensor]:
    return data.load("digits").batch(range(BATCH))


@pytest.fixture(scope="module")
def model() -> nn.Module:
    return models.create(SMALL, data.load("digits").spec)


def seen_by_server(model, digits, defense: str = "none", spec: str = "cafe") -> Observation:
    image = data.load("digits").spec
    batches = attacks.create(spec).batches(BATCH)
    return share(
        model, *digits, defenses.create(defense), image=image, batchnorm="eval", give_labels=False, rng=rng(),
        batches=batches,
    ).seen  # fmt: skip


def psnr(truth: torch.Tensor, guess: torch.Tensor) -> float:
    return float(create_metric("psnr").per_image(truth, assigned(truth, guess)).mean())


def test_a_batch_is_recovered_with_its_labels_in_order(model, digits):
    images, labels = digits
    found = attacks.create("cafe:steps=120,lr=0.15")(model, seen_by_server(model, digits), rng=rng())
    assert psnr(images, found.images) > 25
    assert found.labels.tolist() == labels.tolist()
    # indices are known, so that images need no assignment
    assert float(create_metric("psnr").per_image(images, found.images).mean()) > 25


def test_dlg_does_not_take_the_same_batch_apart(model, digits):
    images, labels = digits
    alone = seen_by_server(model, digits)
    whole = dataclasses.replace(
        share(
            model, images, labels, defenses.create("none"), image=alone.image, batchnorm="eval", give_labels=False,
            rng=rng(),
        ).seen
    )  # fmt: skip
    guess = attacks.create("dlg:steps=2,restarts=1")(model, whole, rng=rng()).images
    assert psnr(images, guess) < 15


def test_the_first_two_steps_are_exact(model, digits):
    images, labels = digits
    seen = seen_by_server(model, digits)
    shares = membership_shares([one.indices for one in seen.rounds], BATCH)
    pulls = loss_gradients(shares, torch.stack([one.tensors["network.first.bias"] for one in seen.rounds]))
    inputs = layer_inputs(shares, pulls, [one.tensors["network.first.weight"] for one in seen.rounds])
    truth = met(model, model.network, images)
    assert torch.allclose(inputs.float(), truth, atol=1e-3)
    assert nearest_labels(model.network, truth, pulls.float()).tolist() == labels.tolist()


def test_noise_makes_it_worse(model, digits):
    spec = "cafe:steps=60,lr=0.15"
    clean, noisy = (
        psnr(digits[0], attacks.create(spec)(model, seen_by_server(model, digits, defense), rng=rng()).images)
        for defense in ("none", "gaussian:sigma=0.1")
    )
    assert noisy < clean - 5


def test_the_server_calls_random_halves_and_more_of_them_than_images():
    batches = attacks.create("cafe").batches(BATCH)
    assert len(batches) == BATCH + 10
    assert all(len(set(batch)) == BATCH // 2 and max(batch) < BATCH for batch in batches)
    assert attacks.create("cafe").batches(BATCH) == batches
    assert len(attacks.create("cafe:rounds=3").batches(BATCH)) == 3
    assert attacks.create("cafe").batches(1)[0] == (0,)
    assert int(torch.linalg.matrix_rank(membership_shares(batches, BATCH))) == BATCH


def test_messages_without_indices_are_refused(model, digits):
    seen = seen_by_server(model, digits)
    blind = tuple(dataclasses.replace(one, indices=None) for one in seen.rounds)
    with pytest.raises(CapabilityError, match="needs sample indices"):
        attacks.create("cafe").refuse(model, dataclasses.replace(seen, rounds=blind))


@pytest.mark.parametrize("spec", ["lenet:width=4", "mlp:width=8"])
def test_models_that_are_not_cut_over_workers_are_refused_before_any_work(spec, digits):
    model = models.create(spec, data.load("digits").spec)
    with pytest.raises(ModelError, match=r"vertical federation.*use the model vertical, or invgrad"):
        attacks.create("cafe").refuse(model, seen_by_server(model, digits))


def test_senseless_settings_are_refused():
    with pytest.raises(SettingError, match="out of range"):
        attacks.create("cafe:rounds=0")
