"""What every defense keeps: same seed same result, shapes kept, where it acts is where it acts."""

from __future__ import annotations

import pytest
import torch

from glasshouse.defenses import create, defenses
from glasshouse.defenses.base import GradientDefense

GRADIENTS = {"a": torch.linspace(-1, 1, 60).view(3, 4, 5), "b": torch.linspace(-2, 3, 7)}


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("name", defenses.names())
def test_same_seed_same_result_and_shapes_stay(name):
    first, second = (create(name).on_gradients(GRADIENTS, rng=rng()) for _ in range(2))
    assert list(first) == list(GRADIENTS)
    for key, gradient in first.items():
        assert torch.equal(gradient, second[key])
        assert gradient.shape == GRADIENTS[key].shape
        assert gradient.dtype == GRADIENTS[key].dtype


@pytest.mark.parametrize("name", defenses.names())
def test_the_input_is_never_changed(name):
    before = {key: value.clone() for key, value in GRADIENTS.items()}
    images = torch.rand(2, 3, 8, 8)
    kept = images.clone()
    create(name).on_gradients(GRADIENTS, rng=rng())
    create(name).on_images(images, rng=rng())
    assert all(torch.equal(GRADIENTS[key], before[key]) for key in before)
    assert torch.equal(images, kept)


@pytest.mark.parametrize("name", [one for one in defenses.names() if issubclass(defenses.get(one), GradientDefense)])
def test_acts_where_it_says(name):
    for at, shared, trained in (("gradient", True, False), ("training", False, True), ("both", True, True)):
        defense = create(f"{name}:at={at}")
        changed = [
            not torch.equal(hook(GRADIENTS, rng=rng())["a"], GRADIENTS["a"])
            for hook in (defense.on_gradients, defense.on_training)
        ]
        assert changed == [shared, trained]
        assert at.replace("both", "training and shared gradient") in defense.acts_on


def test_a_chain_acts_in_order():
    chain = create("gaussian:sigma=1/prune:percent=100")
    assert all(not value.any() for value in chain.on_gradients(GRADIENTS, rng=rng()).values())
    other = create("prune:percent=100/gaussian:sigma=1")
    assert all(value.any() for value in other.on_gradients(GRADIENTS, rng=rng()).values())
    trained = create("gaussian:sigma=1,at=training/prune:percent=100,at=training").on_training(GRADIENTS, rng=rng())
    assert all(not value.any() for value in trained.values())
    images = torch.rand(1, 3, 4, 4)
    assert torch.equal(chain.on_images(images, rng=rng()), images)
    assert chain.acts_on == "shared gradient, then shared gradient"
    assert create(chain.complete_spec) == chain
