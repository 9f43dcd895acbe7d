"""Pruning."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from glasshouse.defenses import create
from glasshouse.errors import SettingError


@pytest.mark.parametrize("percent", [0, 10, 70, 99, 100])
def test_the_smallest_entries_of_each_tensor_go(percent, rng):
    gradients = {"a": torch.randn(200, generator=rng), "b": 100 * torch.randn(10, 30, generator=rng)}
    for name, pruned in create(f"prune:percent={percent}").on_gradients(gradients, rng=rng).items():
        before = gradients[name].numpy().ravel()
        gone = int(before.size * percent / 100)
        expected = before.copy()
        expected[np.argsort(np.abs(before), kind="stable")[:gone]] = 0
        assert np.array_equal(pruned.numpy().ravel(), expected)


def test_ties_do_not_prune_more_than_asked(rng):
    pruned = create("prune:percent=50").on_gradients({"a": torch.ones(10)}, rng=rng)["a"]
    assert int((pruned == 0).sum()) == 5


def test_bad_settings():
    with pytest.raises(SettingError, match="percent=101"):
        create("prune:percent=101")
