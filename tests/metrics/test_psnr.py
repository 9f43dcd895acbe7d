"""PSNR against scikit-image."""

from __future__ import annotations

import math

import pytest
import torch
from skimage.metrics import peak_signal_noise_ratio

from glasshouse.metrics import create


def test_against_scikit_image(photos, rng):
    guess = torch.rand(photos.shape, generator=rng)
    for value, a, b in zip(create("psnr")(photos, guess), photos, guess, strict=True):
        assert float(value) == pytest.approx(peak_signal_noise_ratio(a.numpy(), b.numpy(), data_range=1), rel=1e-5)


def test_identical_images_are_infinitely_close(photos):
    assert create("psnr")(photos, photos).tolist() == [math.inf] * len(photos)
