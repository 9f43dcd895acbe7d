"""Which labels an attack works with."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import nn

from glasshouse import models
from glasshouse.attacks.labels import known_labels, recovered_labels
from glasshouse.errors import CapabilityError
from glasshouse.types import ImageSpec, Observation, SharedUpdate

SPEC = ImageSpec(3, 16, 16, 10)


def rng() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def test_given_labels_are_used(lenet, small_photos, observe):
    seen = observe(lenet, small_photos[:2], torch.tensor([3, 4]), give=True)
    assert known_labels(lenet, seen, rng=rng()).tolist() == [3, 4]
    hidden = dataclasses.replace(seen, labels=None)
    assert known_labels(lenet, hidden, rng=rng()).tolist() == recovered_labels(lenet, hidden, rng=rng()).tolist()


def test_labels_of_a_batch_come_from_the_bias(photos, observe):
    model = models.create("resnet20:width=8", ImageSpec(3, 32, 32, 10), seed=1)
    labels = torch.tensor([1, 1, 6, 8])
    seen = observe(model, photos, labels)
    assert sorted(recovered_labels(model, seen, rng=rng()).tolist()) == labels.tolist()


def test_a_batch_without_a_bias_needs_labels(small_photos, observe):
    model = nn.Sequential(nn.Flatten(), nn.Linear(768, 10, bias=False))
    seen = observe(model, small_photos[:2], torch.tensor([1, 2]))
    with pytest.raises(CapabilityError, match="last layer with a bias"):
        recovered_labels(model, seen, rng=rng())
    assert recovered_labels(model, observe(model, small_photos[:1], torch.tensor([2])), rng=rng()).tolist() == [2]


def test_a_model_without_a_last_linear_layer_needs_labels():
    model = nn.Sequential(nn.Conv2d(3, 10, 16), nn.Flatten())
    zeros = {name: torch.zeros_like(value) for name, value in model.named_parameters()}
    seen = Observation((SharedUpdate(zeros),), SPEC, 1)
    with pytest.raises(CapabilityError, match="no last linear layer"):
        recovered_labels(model, seen, rng=rng())


def test_noise_hides_a_label_less_than_the_bias_alone_would(lenet, small_photos, observe):
    noise = torch.Generator().manual_seed(0)
    right = by_bias = 0
    for label in range(10):
        for photo in small_photos:
            shared = observe(lenet, photo[None], torch.tensor([label])).rounds[0].tensors
            noisy = {name: value + torch.randn(value.shape, generator=noise) for name, value in shared.items()}
            seen = Observation((SharedUpdate(noisy),), SPEC, 1)
            right += recovered_labels(lenet, seen, rng=rng()).tolist() == [label]
            by_bias += (
                int(next(value for name, value in reversed(noisy.items()) if name.endswith("bias")).argmin()) == label
            )
    assert right > by_bias + 10
