"""Small alphas give clients few classes each, large ones the same mixture."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from glasshouse.errors import SettingError
from glasshouse.federated import splits

LABELS = [label for label in range(10) for _ in range(100)]


def unevenness(alpha: float) -> float:
    """How far the clients' mixtures of classes are from that of all, on average (total variation)."""
    found = []
    for seed in range(10):
        for part in splits.create(f"dirichlet:alpha={alpha}")(LABELS, 5, seed=seed):
            mixture = np.bincount([LABELS[place] for place in part], minlength=10) / len(part)
            found.append(np.abs(mixture - 0.1).sum() / 2)
    return float(np.mean(found))


def test_alpha_orders_unevenness():
    assert unevenness(0.1) > 0.5 > unevenness(1.0) > unevenness(100.0)
    assert unevenness(100.0) < 0.1


def test_shares_follow_the_distribution():
    """Of n images of a class a client gets on average n / clients, with the variance of a Dirichlet share."""
    split = splits.create("dirichlet:alpha=2.0")
    shares = np.array([len(split([0] * 1000, 4, seed=seed)[0]) for seed in range(300)]) / 1000
    assert abs(shares.mean() - 0.25) < 0.04
    assert abs(shares.var() - 0.25 * 0.75 / (4 * 2 + 1)) < 0.006


@settings(max_examples=30, deadline=None)
@given(some.lists(some.integers(0, 5), min_size=40, max_size=80), some.integers(1, 4), some.integers(0, 99))
def test_every_image_has_one_owner(labels, clients, seed):
    parts = splits.create("dirichlet:alpha=1.0")(labels, clients, seed=seed)
    assert sorted(place for part in parts for place in part) == list(range(len(labels)))
    assert min(map(len, parts)) >= 2


def test_what_cannot_be_dealt_is_refused():
    with pytest.raises(SettingError, match="use a larger alpha"):
        splits.create("dirichlet:alpha=0.001")([0] * 20, 10, seed=0)
    with pytest.raises(SettingError, match="alpha=0 is out of range"):
        splits.create("dirichlet:alpha=0")
