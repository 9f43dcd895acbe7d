"""Laplacian noise."""

from __future__ import annotations

import pytest
import torch
from scipy import stats

from glasshouse.defenses import create
from glasshouse.errors import SettingError


def test_the_noise_is_laplacian_with_the_scale_asked_for(rng):
    noise = create("laplace:scale=0.02").on_gradients({"a": torch.zeros(20_000)}, rng=rng)["a"]
    assert stats.kstest(noise.numpy() / 0.02, "laplace").pvalue > 0.01


def test_bad_settings():
    with pytest.raises(SettingError, match="scale=-1"):
        create("laplace:scale=-1")
