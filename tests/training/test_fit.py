"""Training learns, repeats by seed, and lets a defense act on its gradients."""

from __future__ import annotations

import pytest
import torch

from glasshouse import data, models
from glasshouse.errors import ModelError, SettingError
from glasshouse.training import Client, Computed, Recipe, accuracy, fit
from glasshouse.training.fit import _augmented


@pytest.fixture(scope="module")
def digits():
    train, test = (data.load(f"digits:split={split}") for split in ("train", "test"))
    return train.spec, train.batch(range(600)), test.batch(range(200))


def trained(digits, recipe: Recipe, **options):
    spec, (images, labels), _ = digits
    model = models.create("resnet20:width=4", spec, seed=0)
    fit(model, images, labels, recipe, **options)
    return model


def test_learns_digits(digits):
    model = trained(digits, Recipe(epochs=6, batch=64, augment=False))
    assert accuracy(model, *digits[2]) > 0.5
    assert not model.training


def test_same_seed_same_weights(digits):
    first, second = (trained(digits, Recipe(epochs=1, batch=64)) for _ in range(2))
    for a, b in zip(first.state_dict().values(), second.state_dict().values(), strict=True):
        assert torch.equal(a, b)


def test_batches_follow_from_a_generator_where_one_is_given(digits):
    found = [trained(digits, Recipe(epochs=1, batch=64), rng=torch.Generator().manual_seed(seed)) for seed in (1, 1, 2)]
    first, again, other = (next(model.parameters()) for model in found)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_a_hook_sees_and_changes_every_gradient(digits):
    spec, (images, labels), _ = digits
    model = models.create("lenet", spec, seed=0)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    seen: set[str] = set()

    class Silent(Client):
        def gradients(self, model, samples):
            found = super().gradients(model, samples)
            seen.update(found.gradients)
            return Computed(found.loss, {name: torch.zeros_like(value) for name, value in found.gradients.items()})

    fit(model, images[:64], labels[:64], Recipe(epochs=1, weight_decay=0), client=Silent())
    assert seen == {name for name, _ in model.named_parameters()}
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


def test_divergence_is_said(digits):
    with pytest.raises(ModelError, match="smaller --lr"):
        trained(digits, Recipe(epochs=3, lr=1e12, batch=64))


def test_augmented_images_are_shifted_copies(rng):
    images = torch.rand(8, 3, 12, 12, generator=rng)
    moved = _augmented(images, rng)
    padded = torch.nn.functional.pad(images, (4,) * 4)
    for number, image in enumerate(moved):
        windows = padded[number].unfold(1, 12, 1).unfold(2, 12, 1)
        same = [(windows[:, y, x] == view).all() for y in range(9) for x in range(9) for view in (image, image.flip(2))]
        assert any(same)


def test_bad_recipes():
    with pytest.raises(SettingError, match="epochs=0"):
        Recipe(epochs=0)


def test_steps_are_those_that_are_taken():
    """A last batch of one image is left out where batches are dealt, and may be drawn where they are drawn."""
    recipe = Recipe(epochs=2, batch=16)
    assert [recipe.steps(count, drawn=False) for count in (1, 16, 17, 18, 33)] == [2, 2, 2, 4, 4]
    assert recipe.steps(17) == 4
