"""One-to-one assignment against trying every order."""

from __future__ import annotations

from itertools import permutations

import torch

from glasshouse.studies.assignment import assigned, share_right


def test_against_every_order(rng):
    truth, guess = (torch.rand(4, 3, 5, 5, generator=rng) for _ in range(2))
    least = min(((truth - guess[list(order)]) ** 2).sum() for order in permutations(range(4)))
    torch.testing.assert_close(((truth - assigned(truth, guess)) ** 2).sum(), least)


def test_a_shuffled_batch_is_put_back(rng):
    truth = torch.rand(6, 1, 4, 4, generator=rng)
    assert torch.equal(assigned(truth, truth[torch.randperm(6, generator=rng)]), truth)


def test_labels_are_counted_whatever_their_order_and_each_once():
    truth = torch.tensor([4, 1, 1, 7])
    assert share_right(torch.tensor([1, 7, 4, 1]), truth) == 1
    assert share_right(torch.tensor([7, 7, 4, 2]), truth) == 0.5
    assert share_right(torch.tensor([1, 1, 1]), truth) == 2 / 3  # some images of an update that has more
    assert share_right(None, truth) is None
