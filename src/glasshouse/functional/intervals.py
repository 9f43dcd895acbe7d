"""Intervals, so that no mean and no share is ever printed alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from scipy import stats

from glasshouse.types import Interval

RESAMPLES = 2000
DEFINED = 0.8  # of all draws, for an interval to speak for them
AT_ONCE = 2**22  # entries of resampled counts that are held at a time
FEW = 20  # values below which a bootstrap is too narrow: of three it holds the mean in 75 % of cases
NORMAL_95 = 1.959963984540054
SEED = 20240229  # fixed, so that the same values always give the same interval
ANYWHERE = (-np.inf, np.inf)

Array = np.ndarray[Any, np.dtype[Any]]


def mean_interval(values: Sequence[float], *, within: tuple[float, float] = ANYWHERE) -> Interval:
    """Mean with its 95 % interval: Student's t of fewer than 20 values, else the percentile bootstrap.

    One value says nothing of how far others lie from it, so it has no interval: both ends are NaN. Where a value is
    infinite, the interval is the mean itself. Student's t knows nothing of the range that values are ``within``, so
    what reaches beyond it is cut off.
    """
    array = np.asarray(values, dtype=np.float64)
    mean = float(array.mean())
    lowest, highest = within
    # a mean beyond the range, if only by rounding, is shown and lies in its interval
    low, high = np.clip(_mean_ends(array), min(lowest, mean), max(highest, mean)).tolist()
    return Interval(mean, low, high, len(array))


def _mean_ends(array: Array) -> tuple[float, float]:
    """Between which values a mean lies in 95 % of cases."""
    mean = float(array.mean())
    if not np.isfinite(array).all():
        return mean, mean
    if len(array) == 1:
        return np.nan, np.nan
    if len(array) < FEW:
        half = float(stats.t.ppf(0.975, len(array) - 1) * array.std(ddof=1) / len(array) ** 0.5)
        return mean - half, mean + half
    picks = np.random.default_rng(SEED).integers(0, len(array), (RESAMPLES, len(array)))
    return ends(array[picks].mean(axis=1))


def share_interval(hits: float, images: int) -> Interval:
    """A share with its Wilson 95 % interval, which stays honest for three images out of three."""
    share, z2 = hits / images, NORMAL_95**2
    centre = (share + z2 / (2 * images)) / (1 + z2 / images)
    half = NORMAL_95 / (1 + z2 / images) * (share * (1 - share) / images + z2 / (4 * images**2)) ** 0.5
    # of none or of all the ends are the share itself, but for rounding
    return Interval(share, min(max(centre - half, 0.0), share), max(min(centre + half, 1.0), share), images)


def bootstrap_interval(statistic: Callable[[Array], Array], things: int, resamples: int = RESAMPLES) -> Interval:
    """A statistic over ``things`` with its percentile bootstrap 95 % interval.

    ``statistic`` takes (R, things) counts, how often each thing is there, and returns (R,) values. Draws for which it
    has no value (NaN) are left out; where these are many, what is left says nothing of the others: no interval.
    """
    found = float(statistic(np.ones((1, things), np.int32))[0])
    values = np.concatenate([statistic(counts) for counts in redraws(things, resamples)])
    known = values[~np.isnan(values)]
    low, high = ends(known) if len(known) >= DEFINED * len(values) else (np.nan, np.nan)
    return Interval(found, low, high, things)


def redraws(things: int, resamples: int = RESAMPLES) -> Iterator[Array]:
    """How often each thing comes in each resample, (R, things) at a time; always the same draws."""
    random = np.random.default_rng(SEED)
    step = max(1, AT_ONCE // things)
    for start in range(0, resamples, step):
        yield redrawn(random, min(step, resamples - start), things)


def redrawn(random: np.random.Generator, count: int, size: int) -> Array:
    """How often each of ``size`` things comes when as many are drawn with replacement, ``count`` times over."""
    picks = random.integers(0, size, (count, size)) + size * np.arange(count)[:, None]
    return np.bincount(picks.ravel(), minlength=count * size).reshape(count, size).astype(np.int32)


def ends(values: Array) -> tuple[float, float]:
    """The middle 95 % of some values; NaN where there are none."""
    if not len(values):
        return np.nan, np.nan
    low, high = np.percentile(values, (2.5, 97.5))
    return float(low), float(high)
