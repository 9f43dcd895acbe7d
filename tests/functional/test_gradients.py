"""Gradients and their distances against plain autograd and numpy."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from glasshouse.functional.gradients import (
    cosine_distance,
    parameter_gradients,
    parameter_names,
    signal_to_noise_db,
    squared_distance,
)


def small() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(12, 5), nn.Sigmoid(), nn.Linear(5, 3))


def test_equal_backward():
    model, images, labels = small(), torch.rand(4, 3, 2, 2), torch.tensor([0, 1, 2, 1])
    F.cross_entropy(model(images), labels).backward()
    for mine, parameter in zip(parameter_gradients(model, images, labels), model.parameters(), strict=True):
        assert torch.equal(mine, parameter.grad)


def test_probabilities_as_targets_equal_labels():
    model, images, labels = small(), torch.rand(4, 3, 2, 2), torch.tensor([0, 1, 2, 1])
    soft = F.one_hot(labels, 3).float()
    for hard, other in zip(
        parameter_gradients(model, images, labels), parameter_gradients(model, images, soft), strict=True
    ):
        torch.testing.assert_close(hard, other)


def test_frozen_parameters_are_not_shared_and_unused_ones_are_zero():
    model = small()
    model.extra = nn.Parameter(torch.ones(2))
    model[1].weight.requires_grad_(False)
    names = parameter_names(model)
    assert "1.weight" not in names
    gradients = dict(zip(names, parameter_gradients(model, torch.rand(1, 3, 2, 2), torch.tensor([0])), strict=True))
    assert gradients["extra"].abs().sum() == 0


def test_distances_against_numpy():
    first, second = [torch.randn(3, 2), torch.randn(5)], [torch.randn(3, 2), torch.randn(5)]
    a, b = (np.concatenate([t.numpy().ravel() for t in side]) for side in (first, second))
    np.testing.assert_allclose(float(squared_distance(first, second)), ((a - b) ** 2).sum(), rtol=1e-5)
    expected = 1 - a @ b / (np.linalg.norm(a) * np.linalg.norm(b))
    np.testing.assert_allclose(float(cosine_distance(first, second)), expected, rtol=1e-5)
    ratio = 10 * math.log10((a**2).sum() / ((a - b) ** 2).sum())
    np.testing.assert_allclose(signal_to_noise_db(first, second), ratio, rtol=1e-6)


def test_an_untouched_gradient_has_no_noise():
    assert signal_to_noise_db([torch.ones(3)], [torch.ones(3)]) == math.inf


def test_cosine_of_nothing_is_finite():
    assert torch.isfinite(cosine_distance([torch.zeros(3)], [torch.ones(3)]))
