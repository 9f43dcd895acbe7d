"""A claim holds, fails or stays open by the interval of its differences, and never by a mean alone."""

from __future__ import annotations

import pytest
from scipy import stats
from tests.reports.federated_rows import asked, interval, row

from glasshouse.reports.federations_claims import (
    CLEAN,
    PROTECTED,
    Claim,
    accuracy,
    area,
    best_accuracy,
    gap,
    judged,
    worst_area,
)

ORDER = Claim("a > b > c", ("none", "csvar", "clip"), accuracy(CLEAN))


@pytest.mark.parametrize(
    ("accuracies", "word"),
    [
        ((0.9, 0.7, 0.5), "holds"),
        ((0.9, 0.5, 0.7), "does not hold"),
        ((0.9, 0.71, 0.7), "not resolved"),
        ((0.5, 0.71, 0.7), "does not hold"),
    ],
)
def test_an_order_is_as_good_as_its_worst_step(accuracies, word):
    rows = [row(way, share, 0.6) for way, share in zip(ORDER.ways, accuracies, strict=True)]
    assert judged(ORDER, rows).word == word


@pytest.mark.parametrize(("share", "word"), [(0.885, "holds"), (0.845, "not resolved"), (0.8, "does not hold")])
def test_a_cost_is_held_against_a_margin(share, word):
    claim = Claim("csvar costs at most 0.05", ("csvar", "none"), best_accuracy, margin=0.05)
    assert judged(claim, [row("none", 0.9, 0.6), row("csvar", share, 0.6)]).word == word


def test_what_is_missing_is_said_unless_the_rest_decides():
    assert judged(ORDER, [row("none", 0.9, 0.6)]).word == "not measured yet (csvar, clip missing)"
    assert judged(ORDER, []).word == "not measured yet (none, csvar, clip missing)"
    assert judged(ORDER, [row("none", 0.5, 0.6), row("csvar", 0.9, 0.6)]).word == "does not hold"
    apart = [row("none", 0.9, 0.6), row("csvar", 0.7, 0.6, seed=1), row("clip", 0.5, 0.6, seed=1)]
    assert "seeds in common missing" in judged(ORDER, apart).word


def test_seeds_are_paired_as_in_a_t_test():
    first, second = [0.9, 0.7, 0.8], [0.85, 0.68, 0.70]
    found = gap([(interval(one, 0), interval(two, 0)) for one, two in zip(first, second, strict=True)])
    expected = stats.ttest_rel(first, second).confidence_interval()
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))


def test_one_seed_has_the_interval_over_images():
    """Two shares of independent samples: the combined interval is near to Newcombe's for the difference."""
    one, two = ({"mean": 56 / 70, "low": 0.6921, "high": 0.8769}, {"mean": 48 / 80, "low": 0.4905, "high": 0.7002})
    found = gap([(one, two)])
    assert (found.low, found.high) == pytest.approx((0.0524, 0.3339), abs=5e-4)  # Newcombe 1998, method 10, example a


def test_ways_of_asking():
    own = row("csvar", 0.7, 0.55)
    own["membership"]["2"]["loss, protected"] = asked(0.66)
    own["shadowed"] = {"rmia, clean": asked(0.9)}
    assert area("loss", CLEAN)(own)["mean"] == 0.55
    assert area("loss", PROTECTED)(own)["mean"] == worst_area("loss")(own)["mean"] == 0.66
    assert area("rmia", PROTECTED)(own)["mean"] == 0.9  # which was asked with clean images only
    assert accuracy(PROTECTED)(row("none", 0.8, 0.6))["mean"] == 0.8  # there is nothing to protect with


def test_augmented_clients_are_another_way():
    assert judged(ORDER, [row("none", 0.9, 0.6, augment=True)]).missing == ORDER.ways
