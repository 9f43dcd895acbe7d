"""Which labels an attack works with."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import nn

from glasshouse import data, models
from glasshouse.attacks.labels import known_labels, recovered_labels
from glasshouse.errors import CapabilityError
from glasshouse.training import Recipe, fit
from glasshouse.types import ImageSpec, Observation, SharedUpdate

SPEC = ImageSpec(3, 16, 16, 10)


def rng() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def test_given_labels_are_used(lenet, small_photos, observe):
    seen = observe(lenet, small_photos[:2], torch.tensor([3, 4]), give=True)
    assert known_labels(lenet, seen).tolist() == [3, 4]
    hidden = dataclasses.replace(seen, labels=None)
    assert known_labels(lenet, hidden).tolist() == recovered_labels(lenet, hidden).tolist()


def test_labels_of_a_batch_come_from_the_bias(photos, observe):
    model = models.create("resnet20:width=8", ImageSpec(3, 32, 32, 10), seed=1)
    labels = torch.tensor([1, 1, 6, 8])
    seen = observe(model, photos, labels)
    assert sorted(recovered_labels(model, seen).tolist()) == labels.tolist()


@pytest.mark.parametrize("spec", ["lenet:width=8", "mlp:width=64", "resnet20:width=4", "rgapnet:bias=true", "vertical"])
@pytest.mark.parametrize("classes", [(3,), (1, 4, 4, 4, 4, 7), tuple(range(10))], ids=str)
def test_repeated_labels_of_a_batch_on_fresh_models(spec, classes, small_photos, observe):
    model = models.create(spec, SPEC, seed=2)
    truth = torch.tensor([classes[number % len(classes)] for number in range(12)])
    noise = torch.rand(12, 3, 16, 16, generator=rng())
    images = 0.7 * small_photos.repeat(3, 1, 1, 1) + 0.3 * noise
    found = recovered_labels(model, observe(model, images, truth))
    right = torch.minimum(found.bincount(minlength=10), truth.bincount(minlength=10)).sum()
    assert int(right) >= 11


def test_repeated_labels_of_a_batch_on_a_trained_model(observe):
    digits = data.load("digits", split="train")
    images, truth = digits.batch(range(400))
    model = models.create("mlp:width=32", digits.spec)
    fit(model, images[:300], truth[:300], Recipe(epochs=4, batch=32, lr=0.02, augment=False))
    few = [place for place in range(300, 400) if int(truth[place]) in (1, 4, 7)][:16]
    found = recovered_labels(model, observe(model, images[few], truth[few]))
    right = torch.minimum(found.bincount(minlength=10), truth[few].bincount(minlength=10)).sum()
    assert int(right) >= 12  # labels drawn at random would be right in five


def test_a_batch_without_a_bias_needs_labels(small_photos, observe):
    model = nn.Sequential(nn.Flatten(), nn.Linear(768, 10, bias=False))
    seen = observe(model, small_photos[:2], torch.tensor([1, 2]))
    with pytest.raises(CapabilityError, match=r"Labels of 2 images .*last layer's bias.*--labels given"):
        recovered_labels(model, seen)
    assert recovered_labels(model, observe(model, small_photos[:1], torch.tensor([2]))).tolist() == [2]


def test_a_model_without_a_last_linear_layer_needs_labels():
    model = nn.Sequential(nn.Conv2d(3, 10, 16), nn.Flatten())
    zeros = {name: torch.zeros_like(value) for name, value in model.named_parameters()}
    seen = Observation((SharedUpdate(zeros),), SPEC, 1)
    with pytest.raises(CapabilityError, match="no last linear layer"):
        recovered_labels(model, seen)


def test_noise_hides_a_label_less_than_the_bias_alone_would(lenet, small_photos, observe):
    noise = torch.Generator().manual_seed(0)
    right = by_bias = 0
    for label in range(10):
        for photo in small_photos:
            shared = observe(lenet, photo[None], torch.tensor([label])).rounds[0].tensors
            noisy = {name: value + torch.randn(value.shape, generator=noise) for name, value in shared.items()}
            seen = Observation((SharedUpdate(noisy),), SPEC, 1)
            right += recovered_labels(lenet, seen).tolist() == [label]
            by_bias += (
                int(next(value for name, value in reversed(noisy.items()) if name.endswith("bias")).argmin()) == label
            )
    assert right > by_bias + 10
