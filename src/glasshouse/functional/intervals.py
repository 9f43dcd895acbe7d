"""Intervals, so that no mean and no share is ever printed alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import stats

from glasshouse.types import Interval

RESAMPLES = 2000
FEW = 20  # values below which a bootstrap is too narrow: of three it holds the mean in 75 % of cases
NORMAL_95 = 1.959963984540054
SEED = 20240229  # fixed, so that the same values always give the same interval


def mean_interval(values: Sequence[float]) -> Interval:
    """Mean with its 95 % interval: Student's t of fewer than 20 values, else the percentile bootstrap.

    Of one value, and where one is infinite, the interval is the mean itself.
    """
    array = np.asarray(values, dtype=np.float64)
    mean = float(array.mean())
    if len(array) == 1 or not np.isfinite(array).all():
        return Interval(mean, mean, mean, len(array))
    if len(array) < FEW:
        half = float(stats.t.ppf(0.975, len(array) - 1) * array.std(ddof=1) / len(array) ** 0.5)
        return Interval(mean, mean - half, mean + half, len(array))
    picks = np.random.default_rng(SEED).integers(0, len(array), (RESAMPLES, len(array)))
    low, high = np.percentile(array[picks].mean(axis=1), (2.5, 97.5))
    return Interval(mean, float(low), float(high), len(array))


def share_interval(hits: int, images: int) -> Interval:
    """A share with its Wilson 95 % interval, which stays honest for three images out of three."""
    share, z2 = hits / images, NORMAL_95**2
    centre = (share + z2 / (2 * images)) / (1 + z2 / images)
    half = NORMAL_95 / (1 + z2 / images) * (share * (1 - share) / images + z2 / (4 * images**2)) ** 0.5
    return Interval(share, max(centre - half, 0.0), min(centre + half, 1.0), images)
