"""Whether a score orders things as people do: rank correlation of a few models, concordance of many images.

Correlations take (R, things) counts, how often each thing is there in each resample, so that a bootstrap is a few
matrix products; a row of ones gives the plain value. The same values always give the same intervals and the same p.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from glasshouse.errors import DataError
from glasshouse.functional.intervals import AT_ONCE, SEED, Array, share_interval
from glasshouse.types import Interval

PERMUTATIONS = 9_999
FEWEST_PERMUTATIONS = 999
PERMUTED_ENTRIES = 10**8  # of many things fewer orders are tried
ROUNDING = 1e-9  # relative: a permuted sum that is smaller by less is as large
FEWEST_CLUSTERS = 5  # that hold something to compare, for an interval over them


def spearman(first: Array, second: Array, counts: Array) -> Array:
    """Spearman's rho in each resample, ties sharing their mean rank: (R,); NaN where a side has only one value."""
    total = counts.sum(1, keepdims=True)
    centred = []
    for values in (first, second):
        signs = _signs(values)
        ranks = counts @ ((signs > 0) + 0.5 * (signs == 0)).T  # those below, and half of those equal
        centred.append(ranks - (counts * ranks).sum(1, keepdims=True) / total)
    together = (counts * centred[0] * centred[1]).sum(1)
    spreads = [(counts * one**2).sum(1) for one in centred]
    return _ratio(together, np.sqrt(spreads[0] * spreads[1]))


def kendall(first: Array, second: Array, counts: Array) -> Array:
    """Kendall's tau-b in each resample: (R,); NaN where a side has only one value.

    Pairs in the same order less pairs in opposite order, over the geometric mean of the pairs that each side tells
    apart.
    """
    signs = [_signs(values) for values in (first, second)]
    together, *apart = (
        ((counts @ matrix) * counts).sum(1) for matrix in (signs[0] * signs[1], signs[0] ** 2, signs[1] ** 2)
    )
    return _ratio(together, np.sqrt(apart[0] * apart[1]))


def spearman_p(first: Array, second: Array) -> float:
    """Two-sided permutation p of Spearman's rho."""
    once = np.ones(len(first))
    differences = [np.subtract.outer(one, one) for one in (_signs(values) @ once for values in (first, second))]
    return _permutation_p(differences[0], differences[1])


def kendall_p(first: Array, second: Array) -> float:
    """Two-sided permutation p of Kendall's tau."""
    return _permutation_p(_signs(first), _signs(second))


def _permutation_p(first: Array, second: Array) -> float:
    """How often two tables of pairs agree as strongly, either way, when one's things are put in random order.

    The order found counts as one of the draws. Both coefficients are such sums over pairs (Daniels 1944), divided by
    what no order changes.
    """
    things = len(first)
    random = np.random.default_rng(SEED)
    left = int(np.clip(PERMUTED_ENTRIES // things**2, FEWEST_PERMUTATIONS, PERMUTATIONS))
    draws, reached, found = left, 0, abs((first * second).sum())
    while left:
        count = min(left, max(1, AT_ONCE // things**2))
        orders = random.permuted(np.tile(np.arange(things), (count, 1)), axis=1)
        sums = np.einsum("ij,rij->r", first, second[orders[:, :, None], orders[:, None, :]])
        reached += int((abs(sums) >= found * (1 - ROUNDING)).sum())
        left -= count
    return (1 + reached) / (1 + draws)


def _signs(values: Array) -> Array:
    """1 where the first thing of a pair is larger, -1 where it is smaller, 0 where they are equal."""
    return np.sign(np.subtract.outer(values, values))


def _ratio(above: Array, below: Array) -> Array:
    defined = below > 0
    return np.where(defined, above / np.where(defined, below, 1), np.nan)


@dataclass(frozen=True, slots=True, eq=False)
class Area:
    """An area under the ROC curve; ``pull`` is how far each cluster of images that holds a pair moves it."""

    value: float
    pull: Array
    images: int

    @property
    def interval(self) -> Interval:
        """With its 95 % interval over clusters, by the delta method (Obuchowski 1997).

        Where no cluster moves it, as where all pairs are in order, it is as sure as a share of so many clusters.
        """
        if len(self.pull) >= FEWEST_CLUSTERS and _still(self.pull):
            return replace(share_interval(self.value * len(self.pull), len(self.pull)), images=self.images)
        half = _half(self.pull)
        low, high = np.clip((self.value - half, self.value + half), 0, 1)
        return Interval(self.value, float(low), float(high), self.images)

    def less(self, other: Area) -> Interval:
        """By how much this area is larger than another of the same images, each measured on the same clusters."""
        difference, half = self.value - other.value, _half(self.pull - other.pull)
        low, high = np.clip((difference - half, difference + half), -1, 1)
        return Interval(difference, float(low), float(high), self.images)


def area(scores: Array, chances: Array, strata: Array, clusters: Array) -> Area | None:
    """How often the image of a pair that people recognise has the higher score, ties counting half.

    ``chances`` in [0, 1] say how surely each image is recognised (0 and 1 give the plain area); only images of one
    stratum are compared, every such pair weighing the same. Images of one cluster are not independent. ``strata`` and
    ``clusters`` are numbers from 0. None where no stratum has both kinds.
    """
    if not len(scores) or not np.isfinite(scores).all():
        raise DataError(f"{len(scores)} scores, some of them not finite: give finite numbers (N,).")
    agreeing, pairs = _concordance(scores, chances, strata)
    if pairs.sum() <= ROUNDING:
        return None
    value = float(agreeing.sum() / pairs.sum())
    # one more copy of a cluster is compared with all others twice over, but brings the pairs inside it once
    both = np.unique(np.stack([strata, clusters]), axis=1, return_inverse=True)[1].ravel()
    inside, pairs_inside = _concordance(scores, chances, both)
    moved = 2 * (agreeing - value * pairs) - (inside - value * pairs_inside)
    compared = np.bincount(clusters, pairs) > ROUNDING
    return Area(value, np.bincount(clusters, moved)[compared] / pairs.sum(), len(scores))


def _still(pull: Array) -> bool:
    """Whether no cluster moves a statistic, but for rounding."""
    return bool((abs(pull) <= ROUNDING).all())


def _half(pull: Array) -> float:
    """Half of the 95 % interval of a statistic that clusters move so far: Student's t, for there may be few.

    NaN where there are too few, or none moves it: that says nothing of others.
    """
    if len(pull) < FEWEST_CLUSTERS or _still(pull):
        return np.nan
    error = np.sqrt((pull**2).sum() * len(pull) / (len(pull) - 1))
    return float(stats.t.ppf(0.975, len(pull) - 1) * error)


def _concordance(scores: Array, chances: Array, strata: Array) -> tuple[Array, Array]:
    """For each image, the weight of the pairs in which it is ordered rightly, and of all its pairs: (N,), (N,)."""
    order = np.lexsort((scores, strata))
    yes, group, sorted_scores = chances[order], strata[order], scores[order]
    no = 1 - yes
    new_group = np.append(True, group[1:] != group[:-1])
    new_value = new_group | np.append(True, sorted_scores[1:] != sorted_scores[:-1])
    start, stop = _runs(new_group)
    first, last = _runs(new_value)
    sums_yes, sums_no = (np.append(0.0, one.cumsum()) for one in (yes, no))
    no_below = (sums_no[first] + sums_no[last]) / 2 - sums_no[start]
    yes_above = sums_yes[stop] - (sums_yes[first] + sums_yes[last]) / 2
    itself = yes * no  # an image is no pair with itself
    agreeing, pairs = np.empty(len(order)), np.empty(len(order))
    agreeing[order] = yes * no_below + no * yes_above - itself
    pairs[order] = yes * (sums_no[stop] - sums_no[start]) + no * (sums_yes[stop] - sums_yes[start]) - 2 * itself
    return agreeing, pairs


def _runs(new: Array) -> tuple[Array, Array]:
    """Where the run of equal things that each place lies in begins, and where the next one does."""
    begins = np.flatnonzero(new)
    run = new.cumsum() - 1
    return begins[run], np.append(begins[1:], len(new))[run]


def pair_accuracy(scores: Array, truth: Array, resolved: Array) -> float:
    """The share of resolved pairs (things, things) that scores order as the truth does, ties counting half."""
    pairs = np.triu(resolved, 1)
    if not pairs.any():
        return float("nan")
    return float(((1 + _signs(scores) * _signs(truth)) / 2)[pairs].mean())
