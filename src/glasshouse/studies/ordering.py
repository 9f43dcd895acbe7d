"""Reconstructions of one original in the order of two metrics, to be looked at (figure 6)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from glasshouse.functional.intervals import Array
from glasshouse.studies.judgements import Judgements

SHOWN = 2
MOST = 10  # reconstructions of one original that are shown
HALF = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class Ordering:
    """An original (C, H, W), what was made of it, two scores of each (K,), and whether it was recognised."""

    original: Tensor
    guesses: tuple[Tensor, ...]
    psnr: Array
    semsim: Array
    recognised: Array


def orderings(judgements: Judgements, psnr: Array, semsim: Array, count: int = SHOWN) -> tuple[Ordering, ...]:
    """The originals that both metrics order most differently, of those that were recognised in some guesses only."""
    owners = judgements.owners.numpy()
    seen = np.array([guess.share > HALF for guess in judgements.guesses])
    found = []
    for owner in np.unique(owners):
        rows = np.flatnonzero(owners == owner)[:MOST]
        if seen[rows].any() and not seen[rows].all():
            found.append((_turned(psnr[rows], semsim[rows]), int(owner), rows))
    found.sort(key=lambda one: (-one[0], one[1]))
    return tuple(
        Ordering(
            judgements.originals[owner].picture,
            tuple(judgements.guesses[row].picture for row in rows),
            psnr[rows],
            semsim[rows],
            seen[rows],
        )
        for _, owner, rows in found[:count]
    )


def _turned(psnr: Array, semsim: Array) -> int:
    """How many pairs of guesses the metrics put in opposite orders: PSNR is high where SemSim is low."""
    first, second = (np.sign(np.subtract.outer(one, one)) for one in (psnr, -semsim))
    return int((first * second < 0).sum()) // 2
