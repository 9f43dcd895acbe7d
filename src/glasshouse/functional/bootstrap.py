"""Bootstrap intervals, so that no mean is ever printed alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from glasshouse.types import Interval

RESAMPLES = 2000
SEED = 20240229  # fixed, so that the same values always give the same interval


def mean_interval(values: Sequence[float]) -> Interval:
    """Mean with its percentile bootstrap 95 % interval; of one value, the interval is that value."""
    array = np.asarray(values, dtype=np.float64)
    mean = float(array.mean())
    if len(array) == 1 or not np.isfinite(array).all():
        return Interval(mean, mean, mean, len(array))
    picks = np.random.default_rng(SEED).integers(0, len(array), (RESAMPLES, len(array)))
    low, high = np.percentile(array[picks].mean(axis=1), (2.5, 97.5))
    return Interval(mean, float(low), float(high), len(array))
