"""Agreement against worked examples from the literature, slow loops, and votes whose truth is known."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from glasshouse.errors import DataError
from glasshouse.functional.agreement import (
    MISSING,
    dawid_skene,
    detection,
    fleiss_kappa,
    krippendorff_alpha,
    tally,
    unanimous,
)

# fourteen raters, ten subjects, five categories: the usual worked example of Fleiss' kappa, 0.210
FOURTEEN_RATERS = np.array(
    [
        [0, 0, 0, 0, 14],
        [0, 2, 6, 4, 2],
        [0, 0, 3, 5, 6],
        [0, 3, 9, 2, 0],
        [2, 2, 8, 1, 1],
        [7, 7, 0, 0, 0],
        [3, 2, 6, 3, 0],
        [2, 5, 3, 2, 2],
        [6, 5, 2, 1, 0],
        [0, 2, 2, 3, 7],
    ]
)
# Krippendorff 2011, Computing Krippendorff's Alpha-Reliability: two observers, and four with missing data
BEN_AND_GERRY = ("aabbdcccedda", "babbbccceddd")
FOUR_OBSERVERS = ("123321412...", "1233224125.3", ".3332342251.", "12332441251.")


def coded(*observers: str) -> np.ndarray:
    """Votes (items, annotators) from one text per observer, a dot for no vote."""
    letters = sorted(set("".join(observers)) - {"."})
    return np.array(
        [[MISSING if one == "." else letters.index(one) for one in item] for item in zip(*observers, strict=True)]
    )


def slow_kappa(votes: np.ndarray) -> float:
    items = [[vote for vote in item if vote != MISSING] for item in votes.tolist()]
    items = [item for item in items if len(item) > 1]
    agreeing = [np.mean([a == b for a, b in itertools.combinations(item, 2)]) for item in items]
    pooled = Counter(itertools.chain(*items))
    expected = sum((count / pooled.total()) ** 2 for count in pooled.values())
    return (np.mean(agreeing) - expected) / (1 - expected) if expected < 1 else math.nan


def slow_alpha(votes: np.ndarray) -> float:
    """1 - observed over expected disagreement, pair by pair."""
    items = [[vote for vote in item if vote != MISSING] for item in votes.tolist()]
    items = [item for item in items if len(item) > 1]
    pooled = list(itertools.chain(*items))
    observed = sum(sum(a != b for a, b in itertools.permutations(item, 2)) / (len(item) - 1) for item in items)
    expected = sum(a != b for a, b in itertools.permutations(pooled, 2)) / (len(pooled) - 1)
    return 1 - observed / expected if expected else math.nan


def slow_dawid_skene(votes: np.ndarray, categories: int, smoothing: float, steps: int) -> list[list[float]]:
    """The textbook's sums, one vote at a time."""
    beliefs = []
    for item in votes.tolist():
        given = [vote for vote in item if vote != MISSING]
        beliefs.append([(given.count(k) + 1 / categories) / (len(given) + 1) for k in range(categories)])
    for _ in range(steps):
        known = [belief for belief, item in zip(beliefs, votes, strict=True) if (item != MISSING).any()]
        prevalence = [sum(belief[k] for belief in known) / len(known) for k in range(categories)]
        confusion = np.full((votes.shape[1], categories, categories), smoothing)
        for belief, item in zip(beliefs, votes, strict=True):
            for annotator, answer in enumerate(item):
                if answer != MISSING:
                    for k in range(categories):
                        confusion[annotator, k, answer] += belief[k]
        confusion /= confusion.sum(2, keepdims=True)
        for place, item in enumerate(votes):
            chances = [
                prevalence[k] * math.prod(confusion[a, k, answer] for a, answer in enumerate(item) if answer != MISSING)
                for k in range(categories)
            ]
            beliefs[place] = [chance / sum(chances) for chance in chances]
    return beliefs


VOTES = st.integers(2, 5).flatmap(
    lambda annotators: st.lists(
        st.lists(st.integers(MISSING, 2), min_size=annotators, max_size=annotators), min_size=1, max_size=12
    )
)


def test_copies_of_an_item_make_kappa_no_surer():
    once = fleiss_kappa(FOURTEEN_RATERS)
    copies, clusters = np.repeat(FOURTEEN_RATERS, 5, axis=0), np.repeat(np.arange(len(FOURTEEN_RATERS)), 5)
    together, apart = fleiss_kappa(copies, clusters), fleiss_kappa(copies)
    assert (together.mean, together.low, together.high) == pytest.approx((once.mean, once.low, once.high))
    assert apart.high - apart.low < 0.6 * (once.high - once.low)


def test_fleiss_worked_example():
    found = fleiss_kappa(FOURTEEN_RATERS)
    assert found.mean == pytest.approx(0.210, abs=0.0005)
    assert found.low < 0.210 < found.high
    assert found.images == 10
    assert fleiss_kappa(FOURTEEN_RATERS) == found


def test_krippendorff_worked_examples():
    assert krippendorff_alpha(tally(coded(*BEN_AND_GERRY), 5)).mean == pytest.approx(0.692, abs=0.0005)
    assert krippendorff_alpha(tally(coded(*FOUR_OBSERVERS), 5)).mean == pytest.approx(0.743, abs=0.0005)


@given(VOTES)
@settings(max_examples=60, deadline=None)
def test_coefficients_equal_slow_loops_with_missing_votes(votes):
    votes = np.array(votes)
    if ((votes != MISSING).sum(1) < 2).all():
        return
    counts = tally(votes, 3)
    for fast, slow in ((fleiss_kappa, slow_kappa), (krippendorff_alpha, slow_alpha)):
        assert fast(counts, resamples=2).mean == pytest.approx(slow(votes), nan_ok=True, abs=1e-12)


def test_intervals_are_those_of_a_slow_bootstrap():
    random = np.random.default_rng(0)
    truth = random.integers(0, 2, 40)
    votes = np.where(random.random((40, 4)) < 0.8, truth[:, None], 1 - truth[:, None])
    votes[random.random((40, 4)) < 0.1] = MISSING
    counts = tally(votes, 2)
    for fast, slow in ((fleiss_kappa, slow_kappa), (krippendorff_alpha, slow_alpha)):
        found = fast(counts)
        drawn = [slow(votes[random.integers(0, 40, 40)]) for _ in range(200)]
        assert (found.low, found.high) == pytest.approx(tuple(np.percentile(drawn, (2.5, 97.5))), abs=0.04)


def test_chance_agreement_is_nothing_and_full_agreement_is_one():
    counts = tally(np.random.default_rng(1).integers(0, 3, (4000, 5)), 3)
    assert fleiss_kappa(counts, resamples=50).mean == pytest.approx(0, abs=0.03)
    agreed = np.array([[3, 0], [0, 5], [2, 0]])
    assert fleiss_kappa(agreed).mean == krippendorff_alpha(agreed).mean == 1
    assert math.isnan(fleiss_kappa(agreed[[0, 2]]).mean)
    assert math.isnan(krippendorff_alpha(agreed[[0, 2]]).low)


def test_unanimous_share():
    found = unanimous(np.array([[3, 0], [2, 1], [0, 2], [1, 0], [0, 0]]))
    assert (found.mean, found.images) == (2 / 3, 3)


def test_tally_counts_each_answer():
    votes = np.array([[0, 2, MISSING], [1, 1, 1], [MISSING, MISSING, MISSING]])
    assert tally(votes, 3).tolist() == [[1, 0, 1], [0, 3, 0], [0, 0, 0]]


def simulated(items: int, confusion: np.ndarray, missing: float) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(7)
    truth = random.choice(len(confusion[0]), items, p=[0.6, 0.4])
    votes = np.stack(
        [(random.random(items)[:, None] > matrix[truth].cumsum(1)[:, :-1]).sum(1) for matrix in confusion], axis=1
    )
    votes[random.random(votes.shape) < missing] = MISSING
    return truth, votes


# two good annotators, one who leans to the first category, two who hardly look
KNOWN = np.array(
    [
        [[0.95, 0.05], [0.1, 0.9]],
        [[0.9, 0.1], [0.08, 0.92]],
        [[0.98, 0.02], [0.5, 0.5]],
        [[0.55, 0.45], [0.45, 0.55]],
        [[0.5, 0.5], [0.5, 0.5]],
    ]
)


def test_dawid_skene_finds_who_can_be_trusted_and_beats_the_majority():
    truth, votes = simulated(4000, KNOWN, missing=0.2)
    found = dawid_skene(votes, 2)
    assert found.converged
    np.testing.assert_allclose(found.confusion, KNOWN, atol=0.05)
    np.testing.assert_allclose(found.prevalence, [0.6, 0.4], atol=0.03)
    np.testing.assert_allclose(found.reliability, [0.93, 0.908, 0.788, 0.55, 0.5], atol=0.04)
    right = (found.posterior.argmax(1) == truth).mean()
    counts = tally(votes, 2)
    majority = ((counts[:, 1] > counts[:, 0]) == truth).mean()
    assert right > majority + 0.03
    again = dawid_skene(votes, 2)
    assert (again.posterior == found.posterior).all()


def test_dawid_skene_equals_a_slow_loop():
    votes = np.random.default_rng(3).integers(MISSING, 3, (30, 4))
    votes[5] = MISSING
    votes[:, 2] = MISSING
    found = dawid_skene(votes, 3, smoothing=0.1)
    slow = slow_dawid_skene(votes, 3, 0.1, found.steps)
    np.testing.assert_allclose(found.posterior, slow, atol=1e-9)
    np.testing.assert_allclose(found.posterior.sum(1), 1)
    np.testing.assert_allclose(found.confusion[2], 1 / 3)
    np.testing.assert_allclose(found.posterior[5], found.prevalence, atol=1e-3)


def test_dawid_skene_of_one_sided_votes_stays_finite():
    found = dawid_skene(np.zeros((6, 3), int), 2)
    assert np.isfinite(found.posterior).all()
    assert (found.posterior[:, 0] > 0.99).all()


def test_detection_against_scipy_and_a_simulation():
    found = detection(80, 99, 10, 99)
    d_prime = stats.norm.ppf(0.805) - stats.norm.ppf(0.105)
    assert found.d_prime.mean == pytest.approx(d_prime)
    assert found.criterion.mean == pytest.approx(-(stats.norm.ppf(0.805) + stats.norm.ppf(0.105)) / 2)
    random = np.random.default_rng(0)
    drawn = [
        detection(int(hits), 99, int(false), 99).d_prime.mean
        for hits, false in zip(random.binomial(99, 0.805, 2000), random.binomial(99, 0.105, 2000), strict=True)
    ]
    assert (found.d_prime.high - found.d_prime.mean) / 1.96 == pytest.approx(np.std(drawn), rel=0.1)


def test_detection_of_perfect_blind_and_biased_annotators():
    assert math.isfinite(detection(20, 20, 0, 20).d_prime.mean)
    assert detection(20, 20, 0, 20).d_prime.mean > 3
    blind = detection(5, 10, 10, 20)
    assert blind.d_prime.mean == pytest.approx(0, abs=0.05)
    assert blind.d_prime.low < 0 < blind.d_prime.high
    assert detection(2, 20, 0, 20).criterion.mean > 1 > -1 > detection(20, 20, 18, 20).criterion.mean


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: tally(np.array([0, 1]), 2), "items, annotators"),
        (lambda: tally(np.array([[0.5]]), 2), "float64"),
        (lambda: tally(np.array([[0, 2]]), 2), "range from 0 to 2"),
        (lambda: tally(np.array([[0, -2]]), 2), "range from -2"),
        (lambda: fleiss_kappa(np.array([[1, 0], [0, 1]])), "No item of 2 has two votes"),
        (lambda: krippendorff_alpha(np.array([[-1, 3]])), "whole numbers"),
        (lambda: unanimous(np.array([[0.5, 3]])), "whole numbers"),
        (lambda: dawid_skene(np.full((3, 2), MISSING), 2), "No votes on 3 items"),
        (lambda: detection(3, 2, 0, 5), "3 hits of 2"),
        (lambda: detection(0, 0, 0, 5), "at least one signal"),
    ],
)
def test_what_cannot_be_counted_is_refused(wrong, said):
    with pytest.raises(DataError, match=said):
        wrong()
