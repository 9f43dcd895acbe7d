"""Ridge regression equals scikit-learn's, at the strength that does best on pairs it was not fitted to."""

from __future__ import annotations

import torch
from sklearn.linear_model import Ridge

from glasshouse.functional.ridge import STRENGTHS, fit_ridge


def pairs(count: int, noise: float, rng: torch.Generator):
    features = torch.randn(count, 20, generator=rng) * torch.arange(1, 21)
    truth = features[:, :3] @ torch.tensor([[1.0, 2.0], [0.5, -1.0], [0.2, 0.3]]) + 5
    return features, truth + noise * torch.randn(count, 2, generator=rng)


def test_it_is_ridge_regression_at_the_best_of_its_strengths(rng):
    features, targets = pairs(40, 3.0, rng)
    checked = pairs(200, 3.0, rng)
    found = fit_ridge(features, targets, checked)
    scaled = (features - features.mean(0)) / features.std(0)
    asked = (checked[0] - features.mean(0)) / features.std(0)
    peers = [Ridge(alpha=one * 40).fit(scaled.double(), targets.double()).predict(asked.double()) for one in STRENGTHS]
    errors = [float((torch.from_numpy(peer) - checked[1]).square().mean()) for peer in peers]
    best = torch.from_numpy(peers[errors.index(min(errors))]).float()
    assert torch.allclose(found(checked[0]), best, atol=1e-2)
    assert min(errors) < errors[0]  # some strength helps here


def test_features_that_never_vary_count_for_nothing(rng):
    features, targets = pairs(60, 0.1, rng)
    flat = torch.cat([features, torch.full((60, 1), 7.0)], 1)
    found = fit_ridge(flat, targets, (flat, targets))
    moved = flat.clone()
    moved[:, -1] = 100
    assert torch.equal(found(flat), found(moved))
