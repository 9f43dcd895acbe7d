"""What a client shares: the gradient of its batch, defended, with the signal-to-noise ratio of the defense."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional as F

from glasshouse import models
from glasshouse.defenses import create
from glasshouse.errors import ModelError, SettingError
from glasshouse.functional.gradients import parameter_gradients
from glasshouse.studies.conditions import Conditions
from glasshouse.studies.victim import share
from glasshouse.types import ImageSpec

SPEC = ImageSpec(3, 32, 32, 10)


def shared(model, photos, defense="none", mode="eval", give=False):
    rng = torch.Generator().manual_seed(0)
    labels = torch.tensor([0, 1, 2, 3])
    return share(model, photos, labels, create(defense), image=SPEC, batchnorm=mode, give_labels=give, rng=rng)


@pytest.mark.parametrize("mode", ["eval", "train"])
def test_the_shared_gradient_is_what_training_would_compute(photos, mode):
    model = models.create("resnet20:width=4", SPEC)
    seen = shared(model, photos, mode=mode).seen
    twin = models.create("resnet20:width=4", SPEC).train(mode == "train")
    F.cross_entropy(twin(photos), torch.tensor([0, 1, 2, 3])).backward()
    for name, parameter in twin.named_parameters():
        torch.testing.assert_close(seen.rounds[0].tensors[name], parameter.grad)
    assert not model.training
    assert float(model.network[1].running_mean.abs().sum()) == 0


def test_labels_only_when_given(photos):
    model = models.create("lenet", SPEC)
    assert shared(model, photos).seen.labels is None
    assert shared(model, photos, give=True).seen.labels.tolist() == [0, 1, 2, 3]


def test_signal_to_noise(photos):
    model = models.create("lenet", SPEC)
    assert shared(model, photos).snr_db == math.inf
    weak, strong = (shared(model, photos, f"gaussian:sigma={sigma}").snr_db for sigma in (0.01, 0.1))
    assert weak - strong == pytest.approx(20, abs=1e-3)


def test_nan_gradients_are_refused(photos):
    model = models.create("lenet", SPEC)
    with torch.no_grad():
        model.network[0].weight.fill_(float("nan"))
    with pytest.raises(ModelError, match="NaN or infinite"):
        shared(model, photos)


def test_local_training_that_diverges_is_told_by_its_rate(photos):
    model, rng = models.create("lenet", SPEC), torch.Generator().manual_seed(0)
    fast = {"conditions": Conditions(local_lr=100.0, local_epochs=5), "batchnorm": "eval", "give_labels": True}
    with pytest.raises(ModelError, match=r"diverged in step \d at --local-lr 100 .* Use a smaller rate, such as 0\.01"):
        share(model, photos[:1], torch.tensor([0]), create("none"), image=SPEC, rng=rng, **fast)


def test_a_message_of_numbers_too_large_to_compute_with_is_refused(photos):
    with pytest.raises(SettingError, match=r"gaussian:.*numbers as large as .*use a weaker one"):
        shared(models.create("resnet20:width=4", SPEC), photos, "gaussian:sigma=1e37", mode="train")


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ({"a": torch.ones(2), "b": torch.tensor([math.nan])}, "numbers as large as nan"),
        ({"a": torch.ones(2), "b": torch.tensor([-math.inf, 0])}, "numbers as large as inf"),
        ({}, "none the message is empty: use a defense"),
        ({"a": torch.ones(0)}, "the message is empty"),
    ],
)
def test_no_message_is_sent_that_cannot_be_computed_with(message, words, photos, monkeypatch):
    monkeypatch.setattr(type(create("none")), "on_gradients", lambda self, gradients, rng: message)
    with pytest.raises(SettingError, match=words):
        shared(models.create("lenet", SPEC), photos)


def test_a_defense_of_images_is_noise_on_the_gradient_of_the_raw_ones(photos):
    model = models.create("lenet", SPEC)
    assert shared(model, photos, "pixelate:factor=8").snr_db < shared(model, photos, "pixelate:factor=2").snr_db < 60


def test_batches_that_the_server_calls_come_with_their_indices(photos):
    model = models.create("lenet", SPEC)
    batches = ((0, 2), (3,), (0, 1, 2, 3))
    labels = torch.tensor([0, 1, 2, 3])
    seen = share(
        model,
        photos,
        labels,
        create("none"),
        image=SPEC,
        batchnorm="eval",
        give_labels=False,
        rng=torch.Generator().manual_seed(0),
        batches=batches,
    ).seen
    assert tuple(one.indices for one in seen.rounds) == batches
    assert seen.batch_size == 4
    for one in seen.rounds:
        chosen = list(one.indices)
        expected = parameter_gradients(model, photos[chosen], labels[chosen])
        for found, gradient in zip(one.tensors.values(), expected, strict=True):
            torch.testing.assert_close(found, gradient)


def test_the_attacker_may_know_the_defense_but_no_key(photos):
    model = models.create("lenet", SPEC)
    assert shared(model, photos, "prune:percent=70").seen.defense == create("prune:percent=70").complete_spec
    assert "key" not in shared(model, photos, "csvar").seen.defense
