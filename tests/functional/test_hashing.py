"""Feature hashing keeps sums and, on average, inner products."""

from __future__ import annotations

import pytest
import torch

from glasshouse.functional.hashing import Hashing


def test_every_entry_is_added_once_with_its_sign(rng):
    hashing = Hashing.drawn(7, 3, rng)
    gradients = {"a": torch.arange(4.0).view(2, 2), "b": torch.tensor([4.0, 5.0, 6.0])}
    expected = [0.0, 0.0, 0.0]
    for value, place, sign in zip(range(7), hashing.bins.tolist(), hashing.signs.tolist(), strict=True):
        expected[place] += value * sign
    assert hashing(gradients).tolist() == expected
    assert set(hashing.signs.tolist()) <= {-1.0, 1.0}


def test_inner_products_are_kept_on_average(rng):
    first, second = torch.randn(200, generator=rng), torch.randn(200, generator=rng)
    drawn = [Hashing.drawn(200, 64, rng) for _ in range(400)]
    mean = torch.stack([one({"a": first}) @ one({"a": second}) for one in drawn]).mean()
    assert float(mean) == pytest.approx(float(first @ second), abs=5)
