"""MSE against scikit-image."""

from __future__ import annotations

import pytest
import torch
from skimage.metrics import mean_squared_error

from glasshouse.metrics import create


def test_against_scikit_image(photos, rng):
    guess = torch.rand(photos.shape, generator=rng)
    for value, a, b in zip(create("mse")(photos, guess), photos, guess, strict=True):
        assert float(value) == pytest.approx(mean_squared_error(a.numpy(), b.numpy()), rel=1e-5)
