"""SSIM against scikit-image's original Gaussian window."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from skimage.metrics import structural_similarity as reference

from glasshouse.functional.ssim import structural_similarity


@pytest.mark.parametrize(("channels", "height", "width"), [(3, 32, 32), (1, 28, 28), (3, 11, 40), (1, 64, 13)])
def test_against_scikit_image(channels, height, width):
    rng = np.random.default_rng(0)
    truth = rng.random((4, channels, height, width), dtype=np.float32)
    guess = np.clip(truth + rng.normal(0, 0.2, truth.shape).astype(np.float32), 0, 1)
    mine = structural_similarity(torch.from_numpy(truth), torch.from_numpy(guess))
    for value, first, second in zip(mine, truth, guess, strict=True):
        expected = reference(
            first.astype(np.float64),
            second.astype(np.float64),
            data_range=1,
            channel_axis=0,
            gaussian_weights=True,
            sigma=1.5,
            use_sample_covariance=False,
        )
        assert float(value) == pytest.approx(expected, abs=2e-6)
