"""The GAN attack's arithmetic: a generator that learns a class from a classifier, round by round."""

from __future__ import annotations

import copy

import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch.nn import functional as F

from glasshouse import data, models
from glasshouse.attacks.gan import Forger
from glasshouse.training import Recipe, fit
from glasshouse.types import ImageSpec

TARGET, FAKE = 3, 10
ROUNDS = 6
DIGITS = ImageSpec(1, 8, 8, 11)


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def forger(image: ImageSpec = DIGITS, **changes) -> Forger:
    return Forger(image, **{"latent": 16, "width": 8, "lr": 2e-3, "seed": 0, **changes})


def test_samples_are_taken_for_the_target_by_a_judge_who_never_met_the_game():
    """Two participants: one holds the odd digits, the other the even ones and its fakes; their mean goes on."""
    images, labels = data.load("digits", split="train").batch(range(400))
    odd = labels % 2 == 1
    shared, mine, draw = models.create("mlp:width=64", DIGITS), forger(), rng()
    for number in range(ROUNDS):
        mine.learn(shared, TARGET, steps=25, rng=draw)
        made = mine.samples(16, rng=draw)
        armed = torch.cat([images[~odd], made]), torch.cat([labels[~odd], torch.full((16,), FAKE)])
        locals_ = [copy.deepcopy(shared) for _ in range(2)]
        for local, (inputs, targets) in zip(locals_, (armed, (images[odd], labels[odd])), strict=True):
            recipe = Recipe(epochs=1, batch=32, lr=0.05, momentum=0, weight_decay=0, augment=False, seed=number)
            fit(local, inputs, targets, recipe, decay_at=())
        states = [local.state_dict() for local in locals_]
        shared.load_state_dict({name: (states[0][name] + states[1][name]) / 2 for name in states[0]})
    judge = LogisticRegression(max_iter=200).fit(images.flatten(1).numpy(), labels.numpy())
    share = (judge.predict(mine.samples(50, rng=rng(5)).flatten(1).numpy()) == TARGET).mean()
    assert share > 0.5  # chance is 0.1


def test_one_step_is_adams_on_the_cross_entropy_to_the_target():
    """By hand: Adam's first step goes by the learning rate against the sign of every gradient."""
    mine, model = forger(lr=1e-3), models.create("mlp:width=8", DIGITS)
    before = copy.deepcopy(mine.generator)
    loss = mine.learn(model, TARGET, steps=1, rng=rng(1), tv=0.5)
    latent = torch.randn(32, 16, generator=rng(1))
    made = before(latent)
    rough = sum((made.roll(-1, axis) - made).abs().narrow(axis, 0, 7).mean() for axis in (2, 3))
    expected = -F.log_softmax(model(made), 1)[:, TARGET].mean() + 0.5 * rough
    expected.backward()
    assert loss == pytest.approx(float(expected.detach()), rel=1e-6)
    for old, new in zip(before.parameters(), mine.generator.parameters(), strict=True):
        steep = old.grad.abs() > 1e-6  # a bias before batch norm has no gradient but rounding
        assert torch.allclose((old - 1e-3 * old.grad.sign())[steep], new[steep], atol=2e-5)


def test_only_the_generator_learns():
    mine, model = forger(), models.create("mlp:width=8", DIGITS)
    before = copy.deepcopy(model.state_dict())
    mine.learn(model, TARGET, steps=2, rng=rng())
    assert all(value.equal(before[name]) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())


def test_who_goes_on_from_a_state_goes_on_as_if_nothing_had_happened():
    model = models.create("mlp:width=8", DIGITS)
    whole, half, other = forger(), forger(), forger(seed=1)
    draw = rng()
    whole.learn(model, TARGET, steps=2, rng=draw)
    whole.learn(model, TARGET, steps=2, rng=draw)
    draw = rng()
    half.learn(model, TARGET, steps=2, rng=draw)
    other.restore(half.state())
    other.learn(model, TARGET, steps=2, rng=draw)
    assert whole.state().keys() == other.state().keys()
    assert all(value.equal(other.state()[name]) for name, value in whole.state().items())
    assert any("exp_avg_sq" in name for name in whole.state())  # Adam's memory goes on, too


@pytest.mark.parametrize("image", [DIGITS, ImageSpec(3, 30, 17, 5)], ids=str)
def test_samples_have_the_shape_of_the_images(image):
    made = forger(image).samples(3, rng=rng())
    assert made.shape == (3, *image.shape)
    assert float(made.min()) >= 0
    assert float(made.max()) <= 1
