"""Rank correlation and concordance against scipy, scikit-learn and slow bootstraps."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import roc_auc_score

from glasshouse.errors import DataError
from glasshouse.functional import ranking
from glasshouse.functional.intervals import bootstrap_interval, redrawn, share_interval
from glasshouse.functional.ranking import area, kendall, kendall_p, pair_accuracy, spearman, spearman_p

PAIRS = st.lists(st.tuples(st.integers(-4, 4), st.integers(-4, 4)), min_size=3, max_size=20)
COEFFICIENTS = ((kendall, stats.kendalltau), (spearman, stats.spearmanr))


def plain(coefficient, first, second) -> float:
    return float(coefficient(np.asarray(first, float), np.asarray(second, float), np.ones((1, len(first)), int))[0])


@given(PAIRS)
@settings(max_examples=60, deadline=None)
def test_coefficients_equal_scipy_with_ties(pairs):
    first, second = np.array(pairs).T
    for mine, theirs in COEFFICIENTS:
        if len(set(first)) == 1 or len(set(second)) == 1:
            assert math.isnan(plain(mine, first, second))
        else:
            assert plain(mine, first, second) == pytest.approx(theirs(first, second).statistic, abs=1e-12)


@pytest.mark.parametrize(("mine", "theirs"), COEFFICIENTS)
def test_every_resample_equals_scipy_on_the_things_drawn(mine, theirs):
    random = np.random.default_rng(0)
    first, second = random.normal(size=(2, 14))
    counts = redrawn(random, 40, 14)
    for count, found in zip(counts, mine(first, second, counts), strict=True):
        assert found == pytest.approx(theirs(np.repeat(first, count), np.repeat(second, count)).statistic, abs=1e-12)


def test_a_bootstrap_leaves_out_draws_without_a_value():
    found = bootstrap_interval(lambda counts: kendall(np.arange(3.0), np.arange(3.0), counts), 3)
    assert (found.mean, found.low, found.high, found.images) == (1, 1, 1, 3)


def test_where_most_draws_have_no_value_there_is_no_interval():
    once = np.array([0.0, 0, 0, 0, 1])  # a draw without the last one, a third of all, has nothing to rank
    found = bootstrap_interval(lambda counts: kendall(np.arange(5.0), once, counts), 5)
    assert 0 < found.mean < 1
    assert np.isnan(found.low)
    assert np.isnan(found.high)


@pytest.mark.parametrize(("mine", "theirs"), [(kendall_p, stats.kendalltau), (spearman_p, stats.spearmanr)])
def test_permutation_p_against_all_orders(mine, theirs, monkeypatch):
    first, second = np.array([1.0, 2, 3, 4, 5]), np.array([2.0, 1, 4, 5, 5])
    found = abs(theirs(first, second).statistic)
    every = [abs(theirs(first, np.array(order)).statistic) >= found - 1e-12 for order in itertools.permutations(second)]
    monkeypatch.setattr(ranking, "AT_ONCE", 40_000)  # in several parts
    assert mine(first, second) == pytest.approx(np.mean(every), abs=0.01)
    assert mine(first, second) == mine(first, second)


def test_many_things_are_permuted_less_often(monkeypatch):
    assert kendall_p(np.arange(14.0), -np.arange(14.0)) == pytest.approx(1 / 10_000)
    monkeypatch.setattr(ranking, "PERMUTED_ENTRIES", 10_000)
    assert kendall_p(np.arange(14.0), np.arange(14.0)) == pytest.approx(1 / 1000)


def slow_area(scores, chances, strata) -> float:
    """Pair by pair."""
    right = total = 0.0
    for i, j in itertools.permutations(range(len(scores)), 2):
        if strata[i] == strata[j]:
            weight = chances[i] * (1 - chances[j])
            total += weight
            right += weight * (1.0 if scores[i] > scores[j] else 0.5 if scores[i] == scores[j] else 0.0)
    return right / total if total > 1e-9 else math.nan


IMAGES = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from([0.0, 0.2, 0.6, 1.0]), st.integers(0, 2)), min_size=1, max_size=15
)


@given(IMAGES)
@settings(max_examples=60, deadline=None)
def test_areas_equal_a_slow_loop(images):
    scores, chances, strata = (np.array(one) for one in zip(*images, strict=True))
    found = area(scores, chances, strata, np.arange(len(scores)))
    slow = slow_area(scores, chances, strata)
    assert (math.nan if found is None else found.value) == pytest.approx(slow, nan_ok=True, abs=1e-9)


def test_one_stratum_of_sure_images_equals_scikit_learn():
    random = np.random.default_rng(0)
    truth = random.integers(0, 2, 500)
    scores = (truth + random.normal(size=500)).round(1)
    found = area(scores, truth.astype(float), np.zeros(500, int), np.arange(500))
    assert found.value == pytest.approx(roc_auc_score(truth, scores))
    assert found.interval.low < found.value < found.interval.high
    assert area(-scores, truth.astype(float), np.zeros(500, int), np.arange(500)).value == pytest.approx(
        1 - found.value
    )


def clustered(seed: int) -> tuple[np.ndarray, ...]:
    """Sixty originals through eight models: easy originals are recognised through most, and score high."""
    random = np.random.default_rng(seed)
    original, model = (one.ravel() for one in np.indices((60, 8)))
    scores = random.normal(size=60)[original] + 0.5 * random.normal(size=480) + model / 8
    truth = (scores + random.normal(size=480) > 0.5).astype(float)
    return scores, truth, original, model


@pytest.mark.parametrize("within", ["nothing", "original", "model"])
def test_intervals_are_those_of_a_bootstrap_of_clusters(within):
    scores, truth, original, model = clustered(0)
    strata = {"nothing": np.zeros(480, int), "original": original, "model": model}[within]
    found = area(scores, truth, strata, original).interval
    random = np.random.default_rng(1)
    drawn = []
    for _ in range(250):
        picks = random.integers(0, 60, 60)
        rows = (picks[:, None] * 8 + np.arange(8)).ravel()
        apart = (
            np.repeat(np.arange(60), 8) if within == "original" else strata[rows]
        )  # copies are originals of their own
        drawn.append(area(scores[rows], truth[rows], apart, np.repeat(np.arange(60), 8)).value)
    assert (found.high - found.low) / (2 * 1.96) == pytest.approx(np.std(drawn), rel=0.2)


def test_a_difference_is_surer_than_two_areas_apart():
    scores, truth, original, _ = clustered(2)
    better = area(scores, truth, np.zeros(480, int), original)
    worse = area(scores + 0.1 * np.random.default_rng(3).normal(size=480), truth, np.zeros(480, int), original)
    difference = better.less(worse)
    assert difference.mean == pytest.approx(better.value - worse.value)
    assert difference.high - difference.low < (better.interval.high - better.interval.low) / 2


def informative(originals: int, random: np.random.Generator) -> ranking.Area:
    """Of eighty originals with six guesses each only some have both recognised and unrecognised ones."""
    original = np.repeat(np.arange(80), 6)
    truth = np.where(original < originals, np.tile([1.0, 1, 1, 0, 0, 0], 80), 0.0)
    shift = random.normal(size=80)[original]  # how well a metric does differs between originals
    found = area(truth * (0.8 + shift) + random.normal(size=480), truth, original, original)
    assert found is not None
    return found


def test_originals_that_compare_nothing_make_no_interval_narrower():
    random = np.random.default_rng(4)
    truth = np.mean([informative(8, random).value for _ in range(2000)])
    drawn = [informative(8, random).interval for _ in range(400)]
    held = np.mean([one.low <= truth <= one.high for one in drawn])
    assert held > 0.9  # over all eighty it would be 0.85


def test_too_few_clusters_have_no_interval():
    random = np.random.default_rng(5)
    few = informative(ranking.FEWEST_CLUSTERS - 1, random)
    assert math.isnan(few.interval.low)
    assert math.isnan(few.less(few).high)
    assert not math.isnan(informative(ranking.FEWEST_CLUSTERS, random).interval.low)
    far = ranking.Area(0.1, np.array([0.3, -0.2, 0.4, -0.3, 0.2]), 30).less(ranking.Area(0.9, np.zeros(5), 30))
    assert (far.low, far.mean) == (-1, pytest.approx(-0.8))


def test_all_in_order_is_as_sure_as_a_share_of_so_many_clusters():
    original = np.repeat(np.arange(10), 2)
    truth = np.tile([0.0, 1.0], 10)
    found = area(truth, truth, original, original)
    assert (found.interval.mean, found.interval.high) == (1, 1)
    assert found.interval.low == pytest.approx(share_interval(10, 10).low)
    assert math.isnan(found.less(found).low)  # a difference that nothing moves says nothing of others


def test_areas_that_do_not_exist():
    assert area(np.arange(3.0), np.ones(3), np.zeros(3, int), np.arange(3)) is None
    assert area(np.arange(2.0), np.array([0.0, 1.0]), np.arange(2), np.arange(2)) is None
    with pytest.raises(DataError, match="finite"):
        area(np.array([np.nan, 1.0]), np.array([0.0, 1.0]), np.zeros(2, int), np.arange(2))


def test_accuracy_on_the_pairs_that_count():
    resolved = np.ones((3, 3), bool)
    assert pair_accuracy(np.array([1.0, 2, 3]), np.array([0.1, 0.2, 0.3]), resolved) == 1
    assert pair_accuracy(np.array([2.0, 2, 3]), np.array([0.1, 0.2, 0.3]), resolved) == pytest.approx(2.5 / 3)
    resolved[0, 1] = False
    assert pair_accuracy(np.array([2.0, 1, 3]), np.array([0.1, 0.2, 0.3]), resolved) == 1
    assert math.isnan(pair_accuracy(np.arange(3.0), np.arange(3.0), np.zeros((3, 3), bool)))
