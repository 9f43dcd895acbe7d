"""How well scores tell members from others: ROC curve, area, true positives where false ones are rare, intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from glasshouse.errors import DataError
from glasshouse.functional.intervals import AT_ONCE, RESAMPLES, SEED, Array, ends, redrawn
from glasshouse.types import Interval

#: False positive rates at which the true positive rate is told, by the name of the metric.
LOW_RATES = {"tpr_at_fpr_0.01": 0.01, "tpr_at_fpr_0.001": 0.001}
METRICS = ("auc", *LOW_RATES, "balanced_accuracy")
ROUNDING = 1e-12
KEPT = 100  # points of a curve that results keep


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """False and true positive rates (T,) from (0, 0) to (1, 1), one point for each threshold."""

    fpr: Array
    tpr: Array

    @property
    def auc(self) -> float:
        """Area under the curve: the chance that a member scores above another image, ties counting half."""
        return float(_areas(self.fpr, self.tpr))

    @property
    def balanced_accuracy(self) -> float:
        """Mean of true positive and true negative rate at the best threshold, which only the truth can tell."""
        return float(_balanced(self.fpr, self.tpr))

    def tpr_at(self, fpr: float) -> float:
        """Largest true positive rate of a threshold whose false positive rate is at most ``fpr``."""
        return float(_low(self.fpr, self.tpr, fpr))

    def thinned(self, points: int = 400) -> Curve:
        """The same curve with fewer points, as dense at rare false positives as at frequent ones."""
        if len(self.fpr) <= points:
            return self
        grid = np.concatenate([np.linspace(0, 1, points // 2), np.geomspace(1 / len(self.fpr), 1, points // 2)])
        kept = np.unique(np.append(np.searchsorted(self.fpr, grid, side="right") - 1, len(self.fpr) - 1))
        return Curve(self.fpr[kept], self.tpr[kept])

    def to_json(self) -> dict[str, list[float]]:
        """The curve as results keep it: with at most so many points as a picture can show."""
        kept = self.thinned(KEPT)
        return {"fpr": kept.fpr.tolist(), "tpr": kept.tpr.tolist()}


def roc(members: Sequence[float] | Array, others: Sequence[float] | Array) -> Curve:
    """The ROC curve of scores that should be high for members."""
    ranked = _Ranked.of(members, others)
    fpr, tpr = ranked.rates(np.ones((1, ranked.members), np.int32), np.ones((1, ranked.others), np.int32))
    return Curve(fpr[0], tpr[0])


def estimable(metric: str, others: int) -> bool:
    """Whether there are enough non-members for a false positive rate to be told: one of them makes one step of it."""
    return others * LOW_RATES.get(metric, 1) >= 1 - ROUNDING


def measure(members: Sequence[float] | Array, others: Sequence[float] | Array) -> dict[str, Interval | None]:
    """Every metric with its percentile bootstrap 95 % interval; None where it is not estimable.

    Members and others are drawn anew, each among themselves. The same scores always give the same intervals.
    """
    ranked = _Ranked.of(members, others)
    random = np.random.default_rng(SEED)
    drawn: dict[str, list[Array]] = {name: [] for name in METRICS}
    step = max(1, AT_ONCE // (ranked.members + ranked.others))
    for start in range(0, RESAMPLES, step):
        count = min(step, RESAMPLES - start)
        fpr, tpr = ranked.rates(*(redrawn(random, count, size) for size in (ranked.members, ranked.others)))
        for name, values in _values(fpr, tpr).items():
            drawn[name].append(values)
    curve = roc(members, others)
    found = _values(curve.fpr, curve.tpr)
    images = ranked.members + ranked.others
    return {
        name: Interval(float(found[name]), *ends(np.concatenate(drawn[name])), images)
        if estimable(name, ranked.others)
        else None
        for name in METRICS
    }


@dataclass(frozen=True, slots=True, eq=False)
class _Ranked:
    """Scores in falling order; ``last`` are the places at which a value occurs for the last time."""

    order: Array
    last: Array
    members: int
    others: int

    @classmethod
    def of(cls, members: Sequence[float] | Array, others: Sequence[float] | Array) -> _Ranked:
        first, second = (np.asarray(scores, dtype=np.float64) for scores in (members, others))
        for name, scores in (("members", first), ("others", second)):
            if scores.ndim != 1 or not len(scores) or not np.isfinite(scores).all():
                raise DataError(f"scores of {name} have shape {scores.shape}: give some finite numbers (N,).")
        values = np.concatenate([first, second])
        order = np.argsort(-values, kind="stable")
        last = np.append(np.flatnonzero(np.diff(values[order])), len(values) - 1)
        return cls(order, last, len(first), len(second))

    def rates(self, members: Array, others: Array) -> tuple[Array, Array]:
        """False and true positive rates (R, T) where each score counts as often as (R, members), (R, others) say."""
        nothing = np.zeros((len(members), 1))
        rates = []
        for counts, share in (
            (np.concatenate([np.zeros_like(members), others], 1), self.others),
            (np.concatenate([members, np.zeros_like(others)], 1), self.members),
        ):
            passed = counts[:, self.order].cumsum(1)[:, self.last] / share
            rates.append(np.concatenate([nothing, passed], 1))
        return rates[0], rates[1]


def _values(fpr: Array, tpr: Array) -> dict[str, Array]:
    """Every metric of rates (..., T)."""
    low = {name: _low(fpr, tpr, rate) for name, rate in LOW_RATES.items()}
    return {"auc": _areas(fpr, tpr), **low, "balanced_accuracy": _balanced(fpr, tpr)}


def _areas(fpr: Array, tpr: Array) -> Array:
    return np.asarray((np.diff(fpr) * (tpr[..., 1:] + tpr[..., :-1]) / 2).sum(-1))


def _low(fpr: Array, tpr: Array, rate: float) -> Array:
    return np.asarray(np.where(fpr <= rate + ROUNDING, tpr, 0).max(-1))


def _balanced(fpr: Array, tpr: Array) -> Array:
    return np.asarray(((tpr + 1 - fpr) / 2).max(-1))
