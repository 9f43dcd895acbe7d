"""Which reconstruction belongs to which image of a batch: one to one, at the least total error."""

from __future__ import annotations

from collections import Counter

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor


def assigned(truth: Tensor, guess: Tensor) -> Tensor:
    """The guesses in the order of the truths, by the assignment with the least mean squared error.

    A gradient averaged over a batch carries no order, so comparing place by place would be unfair to the
    attack. This is done where results are scored; no attack sees it.
    """
    errors = torch.cdist(truth.flatten(1).double(), guess.flatten(1).double()).square()
    _, order = linear_sum_assignment(errors.numpy())
    return guess[torch.as_tensor(order)]


def share_right(found: Tensor | None, truth: Tensor) -> float | None:
    """Share of the labels the attacker worked with that occur among the true ones, each once, whatever the order.

    There may be more true ones: an attacker who reconstructs some images of an update works with as many labels.
    """
    if found is None:
        return None
    right = Counter(found.tolist()) & Counter(truth.tolist())
    return right.total() / len(found)
