"""Rough functions are found wherever they are called: in modules, by themselves, as methods, in place."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from glasshouse.functional.smoothness import rough_functions


class Calls(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


@pytest.mark.parametrize(
    "function",
    [F.relu, torch.relu, lambda x: x.relu(), lambda x: x.clone().relu_(), nn.ReLU(), nn.ReLU6(), nn.LeakyReLU(),
     nn.PReLU(), nn.MaxPool2d(2), lambda x: F.max_pool2d(x, 2), nn.AdaptiveMaxPool2d(2), lambda x: x.clamp(min=0)],
)  # fmt: skip
def test_rough_functions_are_found(function):
    assert rough_functions(Calls(function), torch.randn(1, 3, 8, 8))


@pytest.mark.parametrize("function", [nn.Sigmoid(), torch.tanh, nn.GELU(), nn.SiLU(), nn.AvgPool2d(2), nn.Softplus()])
def test_smooth_ones_are_not(function):
    assert rough_functions(Calls(function), torch.randn(1, 3, 8, 8)) == []
