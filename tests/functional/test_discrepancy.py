"""The maximum mean discrepancy against a slow loop, and unbiased."""

from __future__ import annotations

import itertools

import pytest
import torch

from glasshouse.functional import discrepancy
from glasshouse.functional.discrepancy import polynomial_mmd


def slow(first: torch.Tensor, second: torch.Tensor) -> float:
    """Pair by pair, as the definition reads."""

    def kernel(x: torch.Tensor, y: torch.Tensor) -> float:
        return float(((x * y).sum() / len(x) + 1) ** 3)

    inside = [
        sum(kernel(x, y) for x, y in itertools.permutations(own, 2)) / (len(own) * (len(own) - 1))
        for own in (first, second)
    ]
    return sum(inside) - 2 * sum(kernel(x, y) for x in first for y in second) / (len(first) * len(second))


def test_against_a_slow_loop(rng, monkeypatch):
    monkeypatch.setattr(discrepancy, "ROWS", 4)  # in several parts
    first = torch.randn((7, 5), generator=rng).double()
    second = torch.randn((9, 5), generator=rng).double() + 0.5
    assert polynomial_mmd(first, second) == pytest.approx(slow(first, second))
    assert polynomial_mmd(first, second) == pytest.approx(polynomial_mmd(second, first))


def test_equal_distributions_give_zero_on_average_whatever_the_count(rng):
    for count in (4, 40):
        draws = [polynomial_mmd(*torch.randn((2, count, 3), generator=rng).double()) for _ in range(6000 // count)]
        mean = torch.tensor(draws).mean()
        error = torch.tensor(draws).std() / len(draws) ** 0.5
        assert abs(mean) < 3 * error
        assert min(draws) < 0 < max(draws)


def test_sets_further_apart_are_further(rng):
    features = torch.randn((60, 8), generator=rng)
    distances = [polynomial_mmd(features, features.flip(0) + shift) for shift in (0.0, 0.3, 1.0)]
    assert distances[0] < distances[1] < distances[2]
