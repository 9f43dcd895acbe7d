"""Gaussian noise."""

from __future__ import annotations

import pytest
import torch
from scipy import stats

from glasshouse.defenses import create
from glasshouse.errors import SettingError


def test_the_noise_is_normal_with_the_deviation_asked_for(rng):
    noise = create("gaussian:sigma=0.02").on_gradients({"a": torch.zeros(20_000)}, rng=rng)["a"]
    assert stats.kstest(noise.numpy() / 0.02, "norm").pvalue > 0.01


def test_bad_settings():
    with pytest.raises(SettingError, match="sigma=-1"):
        create("gaussian:sigma=-1")
    with pytest.raises(SettingError, match="at=sometimes"):
        create("gaussian:at=sometimes")
