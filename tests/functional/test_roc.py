"""ROC arithmetic against scikit-learn, ties included, and what is not estimable."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics

from glasshouse.errors import DataError
from glasshouse.functional import roc as module
from glasshouse.functional.roc import METRICS, estimable, measure, roc

SCORES = st.lists(st.integers(-4, 4), min_size=1, max_size=30)


def truth(members, others) -> tuple[np.ndarray, np.ndarray]:
    return np.repeat([1, 0], [len(members), len(others)]), np.concatenate([members, others])


@given(SCORES, SCORES)
@settings(max_examples=60, deadline=None)
def test_curve_and_area_equal_scikit_learn_with_ties(members, others):
    known, scores = truth(members, others)
    fpr, tpr, _ = metrics.roc_curve(known, scores, drop_intermediate=False)
    curve = roc(members, others)
    np.testing.assert_allclose(curve.fpr, fpr, atol=1e-12)
    np.testing.assert_allclose(curve.tpr, tpr, atol=1e-12)
    assert curve.auc == pytest.approx(metrics.roc_auc_score(known, scores))
    assert roc(others, members).auc == pytest.approx(1 - curve.auc)
    best = max(metrics.balanced_accuracy_score(known, scores >= level) for level in (*scores, np.inf))
    assert curve.balanced_accuracy == pytest.approx(best)


@pytest.mark.parametrize("rate", [0.001, 0.01, 0.1])
def test_rare_false_positives(rate):
    random = np.random.default_rng(0)
    members, others = random.normal(1, 1, 700), random.normal(0, 1, 2000)
    level = np.sort(others)[-int(rate * 2000)]  # so many others score at least this
    assert roc(members, others).tpr_at(rate) >= (members >= level).mean()
    known, scores = truth(members, others)
    fpr, tpr, _ = metrics.roc_curve(known, scores, drop_intermediate=False)
    assert roc(members, others).tpr_at(rate) == tpr[fpr <= rate].max()


def test_a_perfect_and_a_blind_score():
    assert roc([2, 3], [0, 1]).auc == 1
    assert roc([2, 3], [0, 1]).tpr_at(0) == 1
    blind = roc([1, 1, 1], [1, 1])
    assert (blind.auc, blind.tpr_at(0.5), blind.balanced_accuracy) == (0.5, 0, 0.5)


def test_intervals_are_those_of_a_slow_bootstrap(monkeypatch):
    monkeypatch.setattr(module, "RESAMPLES", 300)
    monkeypatch.setattr(module, "AT_ONCE", 5000)  # in several parts
    random = np.random.default_rng(1)
    members, others = random.normal(1, 1, 60).round(1), random.normal(0, 1, 150).round(1)
    found = measure(members, others)
    slow = [metrics.roc_auc_score(*truth(random.choice(members, 60), random.choice(others, 150))) for _ in range(300)]
    low, high = np.percentile(slow, (2.5, 97.5))
    assert found["auc"].mean == pytest.approx(metrics.roc_auc_score(*truth(members, others)))
    assert found["auc"].low == pytest.approx(low, abs=0.02)
    assert found["auc"].high == pytest.approx(high, abs=0.02)
    assert found["auc"].images == 210
    for value in found.values():
        assert value is None or value.low <= value.mean <= value.high
    assert measure(members, others)["auc"] == found["auc"]


def test_a_rate_needs_enough_others():
    assert [estimable("tpr_at_fpr_0.001", count) for count in (999, 1000)] == [False, True]
    assert [estimable("tpr_at_fpr_0.01", count) for count in (99, 100)] == [False, True]
    assert estimable("auc", 1)
    few = measure(np.arange(50) + 0.5, np.arange(150))
    assert set(few) == set(METRICS)
    assert [name for name, value in few.items() if value is None] == ["tpr_at_fpr_0.001"]
    assert measure(np.arange(2), np.arange(1000))["tpr_at_fpr_0.001"] is not None


def test_a_thinned_curve_tells_the_same():
    random = np.random.default_rng(2)
    curve = roc(random.normal(0.5, 1, 4000), random.normal(0, 1, 4000))
    thin = curve.thinned()
    assert len(thin.fpr) <= 400 < len(curve.fpr)
    assert (thin.fpr[0], thin.tpr[-1]) == (0, 1)
    assert thin.auc == pytest.approx(curve.auc, abs=0.005)
    for rate in (0.001, 0.01, 0.1):
        assert thin.tpr_at(rate) == pytest.approx(curve.tpr_at(rate), abs=0.005)
    assert thin.thinned() is thin


@pytest.mark.parametrize("scores", [[], [[1.0]], [np.nan], [np.inf]])
def test_scores_that_cannot_be_ranked_are_refused(scores):
    with pytest.raises(DataError, match="scores of members"):
        roc(scores, [1.0])
    with pytest.raises(DataError, match="scores of others"):
        measure([1.0], scores)
