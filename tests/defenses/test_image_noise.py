"""Noise on images."""

from __future__ import annotations

import pytest
import torch
from scipy import stats

from glasshouse.defenses import create
from glasshouse.errors import SettingError


def test_the_noise_is_normal_on_the_8_bit_scale(rng):
    noisy = create("image_noise:sigma=10").on_images(torch.full((1, 1, 100, 100), 0.5), rng=rng)
    assert stats.kstest((noisy.flatten().numpy() - 0.5) * 255 / 10, "norm").pvalue > 0.01


def test_pixels_stay_valid_and_gradients_untouched(rng, photos):
    defense = create("image_noise")
    noisy = defense.on_images(photos, rng=rng)
    assert float(noisy.min()) >= 0
    assert float(noisy.max()) <= 1
    assert not torch.equal(noisy, photos)
    gradients = {"a": torch.ones(3)}
    assert defense.on_gradients(gradients, rng=rng) is gradients
    assert defense.acts_on == "images"


def test_bad_settings():
    with pytest.raises(SettingError, match="sigma=-1"):
        create("image_noise:sigma=-1")
