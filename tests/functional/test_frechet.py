"""Fréchet distance against scipy's matrix square root and torchmetrics."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.linalg import sqrtm
from torchmetrics.image.fid import _compute_fid

from glasshouse.functional.frechet import frechet_distance


def features(shift: float) -> torch.Tensor:
    rng = np.random.default_rng(int(shift * 10))
    return torch.from_numpy(rng.normal(shift, 1 + shift, (300, 16)))


def test_against_scipy_and_torchmetrics():
    first, second = features(0.0), features(0.3)
    covariances = [np.cov(one.numpy(), rowvar=False) for one in (first, second)]
    root = np.real(sqrtm(covariances[0] @ covariances[1]))
    means = first.mean(0) - second.mean(0)
    expected = float(means @ means) + np.trace(covariances[0]) + np.trace(covariances[1]) - 2 * np.trace(root)
    assert frechet_distance(first, second) == pytest.approx(expected, rel=1e-6)
    theirs = _compute_fid(first.mean(0), torch.cov(first.T), second.mean(0), torch.cov(second.T))
    assert frechet_distance(first, second) == pytest.approx(float(theirs), rel=1e-6)


def test_a_set_is_at_no_distance_from_itself():
    assert frechet_distance(features(0.0), features(0.0)) == pytest.approx(0, abs=1e-9)
