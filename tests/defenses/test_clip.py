"""Clipping of the whole gradient."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from glasshouse.defenses import create
from glasshouse.errors import SettingError


def test_against_torch(rng):
    parameters = [nn.Parameter(torch.zeros(shape)) for shape in ((4, 5), (7,))]
    for parameter in parameters:
        parameter.grad = torch.randn(parameter.shape, generator=rng)
    gradients = {str(index): parameter.grad.clone() for index, parameter in enumerate(parameters)}
    clipped = create("clip:norm=0.5").on_gradients(gradients, rng=rng)
    nn.utils.clip_grad_norm_(parameters, 0.5)
    for index, parameter in enumerate(parameters):
        torch.testing.assert_close(clipped[str(index)], parameter.grad)


def test_small_gradients_stay_and_zero_is_no_trouble(rng):
    gradients = {"a": torch.tensor([0.1, 0.2])}
    torch.testing.assert_close(create("clip:norm=1").on_gradients(gradients, rng=rng)["a"], gradients["a"])
    assert not create("clip").on_gradients({"a": torch.zeros(3)}, rng=rng)["a"].any()


def test_noise_is_in_proportion_to_the_norm(rng):
    noise = create("clip:norm=2,noise=0.5").on_gradients({"a": torch.zeros(20_000)}, rng=rng)["a"]
    assert float(noise.std()) == pytest.approx(1.0, rel=0.03)


def test_bad_settings():
    with pytest.raises(SettingError, match="norm=0"):
        create("clip:norm=0")
    with pytest.raises(SettingError, match="noise=-1"):
        create("clip:noise=-1")
