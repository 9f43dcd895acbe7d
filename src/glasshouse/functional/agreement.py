"""How far annotators agree: chance-corrected agreement, each one's reliability, sensitivity and bias.

Votes are categories 0, 1, ... (an answer such as "none of these" is a category like any other). ``votes`` are
(items, annotators) with ``MISSING`` where one did not answer; ``counts`` are (items, categories), how many gave each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from glasshouse.errors import DataError
from glasshouse.functional.intervals import NORMAL_95, RESAMPLES, Array, bootstrap_interval, share_interval
from glasshouse.types import Interval

MISSING = -1
SMOOTHING = 0.01  # votes added to every cell of a confusion matrix, so that no answer is ever held impossible
TOLERANCE = 1e-7  # of the mean log posterior per item, between two steps
STEPS = 1000


def tally(votes: Array, categories: int) -> Array:
    """How many annotators gave each category to each item: (items, categories) from (items, annotators)."""
    _check_votes(votes, categories)
    items, annotators = np.nonzero(votes != MISSING)
    cells = items * categories + votes[items, annotators]
    return np.bincount(cells, minlength=len(votes) * categories).reshape(len(votes), categories)


def fleiss_kappa(counts: Array, clusters: Array | None = None, *, resamples: int = RESAMPLES) -> Interval:
    """Fleiss' kappa with its bootstrap interval over items (Fleiss 1971); NaN where all votes are of one category.

    Items may have different numbers of votes: each counts once with the share of its own pairs that agree, the expected
    agreement is that of all votes pooled, and items with fewer than two votes are left out. Items of one of the
    ``clusters`` (N,) are not independent, and drawn together.
    """
    kept = _of_pairs(counts)
    groups = np.arange(len(counts)) if clusters is None else clusters
    own = np.unique(groups[counts.sum(1) > 1], return_inverse=True)[1]
    votes = kept.sum(1)
    agreeing = (kept * (kept - 1)).sum(1) / (votes * (votes - 1))

    def kappa(drawn: Array) -> Array:
        shares = drawn @ kept / (drawn @ votes)[:, None]
        expected = (shares**2).sum(1)
        return _corrected(drawn @ agreeing / drawn.sum(1), expected)

    return bootstrap_interval(lambda drawn: kappa(drawn[:, own]), int(own.max()) + 1, resamples)


def krippendorff_alpha(counts: Array, *, resamples: int = RESAMPLES) -> Interval:
    """Krippendorff's alpha for nominal answers with its bootstrap interval over items (Krippendorff 2011).

    Missing votes are as they are: an item weighs as much as it has votes, and one with fewer than two is left out. NaN
    where all votes are of one category.
    """
    kept = _of_pairs(counts)
    votes = kept.sum(1)
    agreeing = (kept * (kept - 1)).sum(1) / (votes - 1)

    def alpha(drawn: Array) -> Array:
        of_category, total = drawn @ kept, drawn @ votes
        expected = (of_category * (of_category - 1)).sum(1) / (total * (total - 1))
        return _corrected(drawn @ agreeing / total, expected)

    return bootstrap_interval(alpha, len(kept), resamples)


def unanimous(counts: Array) -> Interval:
    """The share of items with at least two votes whose votes are all of one category, with its Wilson interval."""
    kept = _of_pairs(counts)
    return share_interval(int((kept.max(1) == kept.sum(1)).sum()), len(kept))


def _corrected(observed: Array, expected: Array) -> Array:
    """Agreement beyond chance; not defined where chance alone agrees always."""
    possible = 1 - expected
    defined = possible > 1e-12
    return np.where(defined, (observed - expected) / np.where(defined, possible, 1), np.nan)


def _of_pairs(counts: Array) -> Array:
    """The items that have a pair of votes, as floats."""
    if counts.ndim != 2 or (counts < 0).any() or (counts != np.round(counts)).any():
        raise DataError(f"counts have shape {counts.shape}: give whole numbers of at least 0, (items, categories).")
    kept = np.asarray(counts[counts.sum(1) >= 2], dtype=np.float64)
    if not len(kept):
        raise DataError(f"No item of {len(counts)} has two votes, so nobody can agree: collect more votes first.")
    return kept


@dataclass(frozen=True, slots=True, eq=False)
class DawidSkene:
    """What votes say of items and annotators at once.

    ``posterior`` (items, categories) is the chance of each category, ``prevalence`` (categories,) how common each is,
    ``confusion`` (annotators, categories, categories) how often each annotator gives an answer (last) to a category.
    """

    posterior: Array
    prevalence: Array
    confusion: Array
    steps: int
    converged: bool

    @property
    def reliability(self) -> Array:
        """How often each annotator is estimated to answer right: (annotators,)."""
        return np.asarray(np.einsum("k,akk->a", self.prevalence, self.confusion))


def dawid_skene(votes: Array, categories: int, *, smoothing: float = SMOOTHING) -> DawidSkene:
    """Truth and reliability from votes alone, by expectation maximisation (Dawid and Skene 1979).

    Begins with each item's own shares of votes, so there is nothing random. An annotator without votes keeps the
    uniform confusion that the smoothing gives; an item without votes the prevalence.
    """
    counts = tally(votes, categories)
    if not counts.any():
        raise DataError(f"No votes on {len(votes)} items: collect some first.")
    answered = [_in_order(column) for column in votes.T]
    posterior = (counts + 1 / categories) / (counts.sum(1, keepdims=True) + 1)
    gain, reached, step = np.inf, -np.inf, 0
    while gain > TOLERANCE and step < STEPS:
        prevalence = posterior[counts.any(1)].mean(0)
        confusion = _confusion(posterior, answered, smoothing)
        posterior, likelihood = _posterior(prevalence, confusion, answered, len(votes))
        # what a step can only raise: the likelihood with the smoothing as its prior
        now = (likelihood + smoothing * float(np.log(confusion).sum())) / len(votes)
        gain, reached, step = now - reached, now, step + 1
    return DawidSkene(posterior, prevalence, confusion, step, gain <= TOLERANCE)


def _in_order(votes: Array) -> tuple[Array, Array]:
    """The items that an annotator answered, and the answers, by answer: sums over equal ones are then quick."""
    items = np.argsort(votes, kind="stable")[int((votes == MISSING).sum()) :]
    return items, votes[items]


def _confusion(posterior: Array, answered: Sequence[tuple[Array, Array]], smoothing: float) -> Array:
    """Each annotator's answers to each category, shares of one: (annotators, categories, categories)."""
    together = np.full((len(answered), posterior.shape[1], posterior.shape[1]), smoothing)
    for matrix, (items, answers) in zip(together, answered, strict=True):
        present, starts = np.unique(answers, return_index=True)  # answers lie in order
        if len(present):
            matrix[:, present] += np.add.reduceat(posterior[items], starts).T
    return np.asarray(together / together.sum(2, keepdims=True))


def _posterior(
    prevalence: Array, confusion: Array, answered: Sequence[tuple[Array, Array]], items: int
) -> tuple[Array, float]:
    """The chance of each category of each item, and the log likelihood of all votes."""
    with np.errstate(divide="ignore"):  # a category that no vote supports has no chance
        joint = np.tile(np.log(prevalence), (items, 1))
    for matrix, (places, answers) in zip(np.log(confusion), answered, strict=True):
        joint[places] += matrix.T[answers]
    most = joint.max(1, keepdims=True)
    posterior = np.exp(joint - most)
    total = posterior.sum(1, keepdims=True)
    return posterior / total, float((most + np.log(total)).sum())


def _check_votes(votes: Array, categories: int) -> None:
    if votes.ndim != 2 or not votes.size or not np.issubdtype(votes.dtype, np.integer):
        raise DataError(f"votes are {votes.dtype} of shape {votes.shape}: give whole numbers (items, annotators).")
    if votes.min() < MISSING or votes.max() >= categories:
        raise DataError(
            f"votes range from {votes.min()} to {votes.max()}: use 0 to {categories - 1}, and {MISSING} for no vote."
        )


@dataclass(frozen=True, slots=True)
class Detection:
    """How well somebody tells signal from noise (d'), and how far they lean to "no" (criterion, 0 is even-handed)."""

    d_prime: Interval
    criterion: Interval


def detection(hits: int, signals: int, false_alarms: int, noises: int) -> Detection:
    """Sensitivity and bias from ``hits`` of ``signals`` and ``false_alarms`` of ``noises``, with 95 % intervals.

    Half a trial is added to each count (the log-linear rule, Hautus 1995), so that no rate is 0 or 1; the intervals are
    normal, with the variance of Gourevitch and Galanter (1967).
    """
    if not (0 <= hits <= signals and 0 <= false_alarms <= noises and signals and noises):
        raise DataError(
            f"{hits} hits of {signals} and {false_alarms} false alarms of {noises} cannot be: "
            "give counts of at least one signal and one noise."
        )
    normal, scores, variance = NormalDist(), [], 0.0
    for yes, trials in ((hits, signals), (false_alarms, noises)):
        rate = (yes + 0.5) / (trials + 1)
        scores.append(normal.inv_cdf(rate))
        variance += rate * (1 - rate) / ((trials + 1) * normal.pdf(scores[-1]) ** 2)
    half, trials = NORMAL_95 * variance**0.5, signals + noises
    d_prime, criterion = scores[0] - scores[1], -(scores[0] + scores[1]) / 2
    return Detection(
        Interval(d_prime, d_prime - half, d_prime + half, trials),
        Interval(criterion, criterion - half / 2, criterion + half / 2, trials),
    )
