"""What votes say of people themselves: what they recognise, how far they can be reproduced, what an original tells."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np
from scipy import sparse

from glasshouse.functional.agreement import MISSING
from glasshouse.functional.intervals import FEW, SEED, Array, ends, mean_interval, redraws
from glasshouse.functional.ranking import ROUNDING, area, kendall, spearman
from glasshouse.types import JSON, Interval, finite_or_none, flat
from glasshouse.votes.judged import Judged

MOST_SPLITS = 200
FEWEST_DIFFERENT = 6  # originals on which two models differ: five that all agree are one chance in sixteen


@dataclass(frozen=True, slots=True, eq=False)
class Recognition:
    """The share of each model's images that was recognised, with intervals over originals.

    ``resolved`` (models, models) says of which pairs the votes tell who is recognised more often: the 95 % interval of
    the difference leaves out 0, over the same draws of originals for both, or of few originals by Student's t; and
    there are enough originals on which the two differ at all.
    """

    models: tuple[str, ...]
    shares: tuple[float, ...]
    intervals: tuple[Interval, ...]
    resolved: Array

    @property
    def pairs(self) -> tuple[int, int]:
        """How many pairs of models are resolved, and how many there are."""
        return int(np.triu(self.resolved, 1).sum()), comb(len(self.models), 2)

    def to_json(self) -> JSON:
        """Shares and intervals by model, and the count of pairs."""
        resolved, pairs = self.pairs
        return {
            "recognised": dict(zip(self.models, self.shares, strict=True)),
            "recognised_interval": {
                model: [finite_or_none(one.low), finite_or_none(one.high)]
                for model, one in zip(self.models, self.intervals, strict=True)
            },
            "resolved_pairs": resolved,
            "pairs": pairs,
        }


def recognition(people: Judged) -> Recognition:
    """Measure what share of each model's images is recognised, and which models that tells apart."""
    shares = people.per_model(people.chances)
    shape = int(people.original.max()) + 1, len(people.models)
    places = people.original, people.model
    sums, counts = (sparse.csr_array((one, places), shape).T for one in (people.chances, np.ones(len(people.model))))
    with np.errstate(invalid="ignore"):  # a draw may leave out every image of a model
        drawn = np.concatenate([((sums @ draws.T) / (counts @ draws.T)).T for draws in redraws(shape[0])])
    tables = sums.toarray().T, counts.toarray().T
    if shape[0] < FEW:
        resolved = _resolved_by_few(*tables)
    else:
        resolved = np.zeros((shape[1], shape[1]), bool)
        for model in range(shape[1]):
            low, high = np.percentile(drawn[:, [model]] - drawn, (2.5, 97.5), axis=0)
            resolved[model] = (low > 0) | (high < 0)
    resolved &= _different(*tables) >= FEWEST_DIFFERENT
    sizes = np.bincount(people.model)
    intervals = (
        Interval(float(share), *ends(values[~np.isnan(values)]), int(size))
        for share, values, size in zip(shares, drawn.T, sizes, strict=True)
    )
    return Recognition(people.models, tuple(shares.tolist()), tuple(intervals), resolved)


def _different(sums: Array, counts: Array) -> Array:
    """On how many originals that both have two models differ, (models, models)."""
    known, shares = counts > 0, sums / np.maximum(counts, 1)
    rows = (
        (known[:, [model]] & known & (abs(shares[:, [model]] - shares) > ROUNDING)).sum(0)
        for model in range(shares.shape[1])
    )
    return np.stack(list(rows))


def _resolved_by_few(sums: Array, counts: Array) -> Array:
    """Which pairs of models (originals, models) of chances tell apart, each pair by the originals that both have."""
    models, known, shares = sums.shape[1], counts > 0, sums / np.maximum(counts, 1)
    resolved = np.zeros((models, models), bool)
    for one, two in combinations(range(models), 2):
        differences = (shares[:, one] - shares[:, two])[known[:, one] & known[:, two]]
        found = mean_interval(differences.tolist()) if len(differences) > 1 else None
        resolved[one, two] = resolved[two, one] = found is not None and (found.low > 0 or found.high < 0)
    return resolved


@dataclass(frozen=True, slots=True)
class Ceiling:
    """How far people reproduce people; None where there are too few of them.

    ``rho`` and ``tau``: half of the annotators (two of five) rank the models as the others do, by the mean share of
    their votes that are right, averaged over ``splits``. ``auc``: the share of the others' votes tells one annotator's
    vote on an image, averaged over annotators.
    """

    rho: float | None
    tau: float | None
    splits: int
    auc: float | None
    auc_within_original: float | None

    def to_json(self) -> JSON:
        """``ceiling`` is that of tau."""
        return {
            "ceiling": self.tau,
            "ceiling_rho": self.rho,
            "ceiling_splits": self.splits,
            "ceiling_auc": self.auc,
            "ceiling_auc_within_original": self.auc_within_original,
        }


def ceiling(people: Judged) -> Ceiling:
    """Measure how far people reproduce people."""
    right = _per_model(people, people.hits == 1)
    given = _per_model(people, people.hits != MISSING)
    once = np.ones((1, len(people.models)), np.int32)
    found = []
    for some in _splits(people.hits.shape[1]):
        votes = given[:, some].sum(1), given[:, ~some].sum(1)
        if all(one.all() for one in votes):
            first, second = right[:, some].sum(1) / votes[0], right[:, ~some].sum(1) / votes[1]
            found.append((spearman(first, second, once)[0], kendall(first, second, once)[0]))
    rho, tau = np.mean(found, axis=0) if found else (np.nan, np.nan)
    pooled = _one_from_others(people, np.zeros_like(people.original))
    within = _one_from_others(people, people.original)
    return Ceiling(finite_or_none(float(rho)), finite_or_none(float(tau)), len(found), pooled, within)


def _per_model(people: Judged, votes: Array) -> Array:
    """How many of each annotator's votes are so, for each model: (models, annotators)."""
    return np.stack([np.bincount(people.model, column, len(people.models)) for column in votes.T], axis=1)


def _splits(annotators: int) -> Iterator[Array]:
    """Each way to put half of the annotators on one side, (annotators,) of bool; of very many ways, some."""
    half = annotators // 2
    if half and comb(annotators, half) <= MOST_SPLITS:
        for chosen in combinations(range(annotators), half):
            yield np.isin(np.arange(annotators), chosen)
    elif half:
        random = np.random.default_rng(SEED)
        for _ in range(MOST_SPLITS):
            yield np.isin(np.arange(annotators), random.permutation(annotators)[:half])


def _one_from_others(people: Judged, strata: Array) -> float | None:
    """How well the others' share of right votes tells each annotator's own: the mean area over annotators."""
    right, given = (people.hits == 1).sum(1), (people.hits != MISSING).sum(1)
    found = []
    for own in people.hits.T:
        rows = (own != MISSING) & (given > 1)
        if rows.any():
            others = (right[rows] - own[rows]) / (given[rows] - 1)
            clusters = np.unique(people.original[rows], return_inverse=True)[1]
            one = area(others, own[rows].astype(np.float64), strata[rows], clusters)
            found += [] if one is None else [one.value]
    return float(np.mean(found)) if found else None


@dataclass(frozen=True, slots=True)
class Difficulty:
    """What an original alone tells: how often it was recognised through the *other* models, taken as a score."""

    auc: Interval | None
    auc_within_model: Interval | None

    def to_json(self) -> JSON:
        """Flat, with ``_low`` and ``_high`` beside each value."""
        return flat("difficulty_auc", self.auc) | flat("difficulty_auc_within_model", self.auc_within_model)


def difficulty(people: Judged) -> Difficulty:
    """Measure the baseline that looks at no reconstruction; None where no original has two of them."""
    times = np.bincount(people.original)[people.original]
    rows = times > 1
    if not rows.any():
        return Difficulty(None, None)
    others = np.bincount(people.original, people.chances)[people.original] - people.chances
    scores, clusters = (
        (others / np.maximum(times - 1, 1))[rows],
        np.unique(people.original[rows], return_inverse=True)[1],
    )
    pooled, within = (
        area(scores, people.chances[rows], strata[rows], clusters)
        for strata in (np.zeros_like(people.model), people.model)
    )
    return Difficulty(*(None if one is None else one.interval for one in (pooled, within)))
