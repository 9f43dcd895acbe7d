"""Intervals against scipy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from glasshouse.functional.intervals import mean_interval, share_interval


def test_bootstrap_against_scipy():
    values = np.random.default_rng(0).normal(5, 2, 60)
    mine = mean_interval(list(values))
    theirs = stats.bootstrap((values,), np.mean, method="percentile", n_resamples=5000, rng=1).confidence_interval
    assert mine.mean == pytest.approx(values.mean())
    assert (mine.low, mine.high) == pytest.approx((theirs.low, theirs.high), abs=0.06)
    assert mine.images == 60


def test_few_values_against_scipy():
    values = [1.0, 2.0, 4.0, 4.5]
    theirs = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    mine = mean_interval(values)
    assert (mine.low, mine.high) == pytest.approx((theirs.low, theirs.high))


def test_an_interval_of_three_values_holds_the_mean_as_often_as_it_says():
    draws = np.random.default_rng(0).normal(1, 1, (400, 3))
    held = [interval.low <= 1 <= interval.high for interval in map(mean_interval, draws.tolist())]
    assert 0.92 < np.mean(held) < 0.98


def test_an_interval_is_cut_off_where_no_value_can_be():
    free, cut = mean_interval([0.9, 1.0]), mean_interval([0.9, 1.0], within=(0, 1))
    assert (cut.mean, cut.low, cut.high) == (free.mean, free.low, 1.0)
    assert free.low > 0
    beyond = mean_interval([2.0, 1.0], within=(0, 1))  # not hidden: it says that something is wrong
    assert (beyond.mean, beyond.high) == (1.5, 1.5)
    assert math.isnan(mean_interval([0.5], within=(0, 1)).low)


def test_same_values_same_interval():
    assert mean_interval([1.0, 2.0, 4.0]) == mean_interval([1.0, 2.0, 4.0])


def test_one_value_and_infinite_values():
    alone = mean_interval([3.0])
    assert alone.mean == 3.0
    assert math.isnan(alone.low)
    assert math.isnan(alone.high)
    assert (f"{alone:.1f}", f"{mean_interval([1.0, 3.0]):.0f}") == ("3.0", "2 [-11, 15]")
    assert mean_interval([3.0, math.inf]).mean == math.inf


@pytest.mark.parametrize(("hits", "images"), [(0, 3), (3, 3), (2, 3), (17, 40)])
def test_wilson_against_scipy(hits, images):
    theirs = stats.binomtest(hits, images).proportion_ci(method="wilson")
    mine = share_interval(hits, images)
    assert (mine.low, mine.high) == pytest.approx((theirs.low, theirs.high))
