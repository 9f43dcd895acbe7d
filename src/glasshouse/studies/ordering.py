"""Reconstructions of one original, to be looked at: in the order of two metrics, or where metrics contradict judges."""

from __future__ import annotations

from collections.abc import Mapping
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
    """The originals that both metrics order most differently, of those recognised in some only of what is shown."""
    owners = judgements.owners.numpy()
    seen = np.array([guess.share > HALF for guess in judgements.guesses])
    found = []
    for owner in np.unique(owners):
        rows = np.flatnonzero(owners == owner)
        rows = _spread(rows[np.argsort(psnr[rows], kind="stable")])
        if seen[rows].any() and not seen[rows].all():
            found.append((turned(psnr[rows], semsim[rows]), int(owner), rows))
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


def _spread(rows: Array) -> Array:
    """At most so many as are shown, from the first to the last."""
    return np.asarray(rows[np.linspace(0, len(rows) - 1, min(MOST, len(rows))).round().astype(int)])


def turned(psnr: Array, semsim: Array) -> int:
    """How many pairs of guesses the metrics put in opposite orders: PSNR is high where SemSim is low."""
    return int((np.greater.outer(psnr, psnr) & np.greater.outer(semsim, semsim)).sum())


@dataclass(frozen=True, slots=True, eq=False)
class Contradiction:
    """An original and two guesses (C, H, W) of which most judges recognise the second, and few the first.

    ``shares`` are how often each was recognised; ``fooled`` are the metrics by which the first shows more.
    """

    original: Tensor
    guesses: tuple[Tensor, Tensor]
    shares: tuple[float, float]
    fooled: tuple[str, ...]


def contradictions(
    judgements: Judgements, metrics: Mapping[str, Array], count: int = SHOWN
) -> tuple[Contradiction, ...]:
    """Of several originals the two guesses on which most metrics contradict the judges (figure 1).

    ``metrics`` are values (K,) of every guess, turned so that high ones leak.
    """
    owners = judgements.owners.numpy()
    shares = np.array([guess.share for guess in judgements.guesses])
    found = []
    for owner in np.unique(owners):
        rows = np.flatnonzero(owners == owner)
        clear = np.logical_and.outer(shares[rows] < HALF, shares[rows] > HALF)
        wrong = np.stack([np.greater.outer(values[rows], values[rows]) for values in metrics.values()])
        votes = wrong.sum(0) * clear
        first, second = np.unravel_index(votes.argmax(), votes.shape)
        fooled = tuple(name for name, one in zip(metrics, wrong[:, first, second], strict=True) if one)
        if clear[first, second] and fooled:
            found.append((int(owner), (int(rows[first]), int(rows[second])), fooled))
    found.sort(key=lambda one: (-len(one[2]), one[0]))
    return tuple(
        Contradiction(
            judgements.originals[owner].picture,
            (judgements.guesses[first].picture, judgements.guesses[second].picture),
            (float(shares[first]), float(shares[second])),
            fooled,
        )
        for owner, (first, second), fooled in found[:count]
    )
