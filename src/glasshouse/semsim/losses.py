"""What distances should be, given judgements: each loss sees distances, how recognisable each guess is, and whose.

``distances`` (K,) are those of guesses to their originals, ``values`` (K,) in [0, 1] the share of judges who
recognised each, ``owners`` (K,) which original each belongs to.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

RECOGNISED = 0.5  # more than half of the votes
RARE = 0.01  # shares nearer to 0 or 1 than this are not told apart
SURE = 0.1  # the certainty below which two guesses are not worth an order
SOFTNESS = 0.03  # distances closer than this are hardly an order


class Loss(Protocol):
    """A loss over judged guesses."""

    def __call__(self, distances: Tensor, values: Tensor, owners: Tensor, margin: float) -> Tensor:
        """One number to make small."""


def triplet(distances: Tensor, values: Tensor, owners: Tensor, margin: float) -> Tensor:
    """The paper's: the original nearer to a recognisable than to an unrecognisable guess of it, by a margin."""
    better, worse = ordered(owners, values > RECOGNISED, values <= RECOGNISED)
    return F.relu(distances[better] - distances[worse] + margin).mean() if len(better) else distances.sum() * 0


def contrastive(distances: Tensor, values: Tensor, owners: Tensor, margin: float) -> Tensor:
    """Recognisable guesses near, the others at least a margin away; split votes pull both ways in proportion."""
    return (values * distances.square() + (1 - values) * F.relu(margin - distances).square()).mean()


def rank(distances: Tensor, values: Tensor, owners: Tensor, margin: float) -> Tensor:
    """Guesses in the order of their grades, the surer the order the more it counts.

    Half of it is about guesses of one original, half about all: one distance is to mean the same for every original.
    """
    return (_rank(distances, values, owners, margin) + _rank(distances, values, torch.zeros_like(owners), margin)) / 2


def _rank(distances: Tensor, values: Tensor, groups: Tensor, margin: float) -> Tensor:
    first, second, sure = surely_ordered(values, groups)
    if not len(first):
        return distances.sum() * 0
    return (F.softplus((distances[first] - distances[second]) / (margin * SOFTNESS)) * sure).sum() / sure.sum()


def surely_ordered(values: Tensor, owners: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Places of all pairs of one owner of which the first is surely more recognisable, and how surely, to 1.

    What counts is the difference of log-odds: a guess that one in fifty recognises differs as much from one that
    nobody does as one that nearly everybody does from one that half do, so the poor ones are ordered as well.
    """
    odds = torch.logit(values, RARE) / (2 * math.log((1 - RARE) / RARE))
    sure = odds[:, None] - odds
    first, second = torch.where((owners[:, None] == owners) & (sure > SURE))
    return first, second, sure[first, second]


def ordered(owners: Tensor, better: Tensor, worse: Tensor) -> tuple[Tensor, Tensor]:
    """Places of all pairs of one owner of which the first is among the better and the second among the worse."""
    first, second = torch.where((owners[:, None] == owners) & better[:, None] & worse)
    return first, second


LOSSES: Mapping[str, Loss] = {"triplet": triplet, "contrastive": contrastive, "rank": rank}
