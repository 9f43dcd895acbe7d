"""Model inversion: weights alone show what a class looks like."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from glasshouse import data, models
from glasshouse.attacks import attacks
from glasshouse.attacks.model_inversion import stretched
from glasshouse.errors import CapabilityError, SettingError
from glasshouse.training import Recipe, fit
from glasshouse.types import Capability, Observation

SHORT = "model_inversion:steps=80"


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture(scope="module")
def digits():
    found = data.load("digits", split="train")
    return found.spec, *found.batch(range(500))


@pytest.fixture(scope="module")
def trained(digits) -> nn.Module:
    spec, images, labels = digits
    model = models.create("mlp:width=32", spec)
    fit(model, images, labels, Recipe(epochs=6, batch=32, lr=0.02, augment=False))
    return model


def prototypes(model: nn.Module, spec, labels: torch.Tensor) -> torch.Tensor:
    return attacks.create(SHORT)(model, Observation((), spec, len(labels), labels=labels), rng=rng()).images


def nearest_class(guesses: torch.Tensor, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The class whose mean image correlates most with each guess."""
    means = torch.stack([images[labels == digit].mean(0) for digit in range(10)])
    first, second = (F.normalize(one.flatten(1) - one.flatten(1).mean(1, keepdim=True)) for one in (guesses, means))
    return (first @ second.T).argmax(1)


def test_prototypes_look_like_their_class_and_only_after_training(trained, digits):
    spec, images, labels = digits
    asked = torch.arange(10)
    right = nearest_class(prototypes(trained, spec, asked), images, labels) == asked
    fresh = nearest_class(prototypes(models.create("mlp:width=32", spec), spec, asked), images, labels) == asked
    assert int(right.sum()) >= 8
    assert int(fresh.sum()) <= 4


def test_the_model_is_sure_of_its_prototypes(trained, digits):
    found = prototypes(trained, digits[0], torch.arange(10))
    assert trained(found).argmax(1).tolist() == list(range(10))


def test_no_gradient_is_needed_but_a_class_is(trained, digits):
    assert attacks.get("model_inversion").needs == {Capability.LABELS}
    with pytest.raises(CapabilityError, match=r"needs labels.*--labels given"):
        attacks.create(SHORT)(trained, Observation((), digits[0], 1), rng=rng())


def test_contrast_is_that_of_a_photograph():
    images = 0.5 + 0.01 * torch.rand(2, 1, 8, 8, generator=rng())
    assert stretched(images, 0.2).std((1, 2, 3)).tolist() == pytest.approx([0.2, 0.2], abs=1e-3)
    assert torch.allclose(stretched(torch.full((1, 1, 4, 4), 0.3), 0.2), torch.tensor(0.3), atol=0.01)


def test_senseless_settings_are_refused():
    with pytest.raises(SettingError, match="out of range"):
        attacks.create("model_inversion:contrast=0")


def test_in_train_mode_a_result_does_not_depend_on_its_neighbours(digits):
    spec = digits[0]
    model = models.create("resnet20:width=4", spec)
    attack = attacks.create("model_inversion:steps=3")
    each = [Observation((), spec, 2, batchnorm="train", labels=torch.tensor([n, n + 1])) for n in range(2)]
    together = attack.attack_all(model, each, rngs=[rng(n) for n in range(2)])
    for number, found in enumerate(together):
        alone = attack(model, each[number], rng=rng(number))
        assert torch.equal(found.images, alone.images)
        assert found.objective == alone.objective
