"""Early stopping takes the watched round that was right most often, of every seed by itself."""

from __future__ import annotations

import pytest
from tests.reports.federated_rows import asked, interval, row

from glasshouse.reports.federations_controls import best_round, controls, matched


def watched(seed, first, second, early, late):
    """A federation that was right in these shares after its two rounds, and leaked so far."""
    right = {
        number: {"clean": {"train": interval(1.0), "test": interval(share)}}
        for number, share in (("1", first), ("2", second))
    }
    told = {"1": {"loss, clean": asked(early)}, "2": {"loss, clean": asked(late)}}
    return row("none", second, late, seed, watched=right, membership=told)


def test_early_stopping_is_chosen_by_accuracy_for_each_seed():
    rows = [watched(0, 0.8, 0.7, 0.55, 0.7), watched(1, 0.6, 0.8, 0.5, 0.7)]
    assert [best_round(one) for one in rows] == [1, 2]
    full, early = controls(rows)
    assert (full.way, full.rounds) == ("none", (2, 2))
    assert (early.way, early.rounds) == ("none, stopped early", (1, 2))
    assert (full.accuracy.mean, full.auc.mean) == pytest.approx((0.75, 0.7))
    assert (early.accuracy.mean, early.auc.mean) == pytest.approx((0.8, 0.625))


def test_of_equal_rounds_the_first_is_taken():
    assert best_round(watched(0, 0.8, 0.8, 0.5, 0.6)) == 1


def test_what_an_earlier_version_measured_has_no_controls():
    assert controls([row("none", 0.8, 0.6, watched={})]) == []


def test_vanilla_training_is_stopped_where_it_is_as_accurate_as_the_defense():
    plain = [watched(0, 0.8, 0.9, 0.55, 0.7), watched(1, 0.6, 0.8, 0.5, 0.7), watched(2, 0.6, 0.65, 0.5, 0.7)]
    shuffled = [row("csvar", 0.75, 0.6, seed) for seed in (0, 1, 2)]
    assert [number for _, number, _ in matched([*plain, *shuffled])] == [1, 2]  # the last is never as accurate
    control = controls([*plain, *shuffled])[-1]
    assert control.way == "none, stopped when as accurate as csvar"
    assert control.auc.mean == pytest.approx((0.55 + 0.7) / 2)
    assert matched(plain) == []
    assert matched([plain[2], shuffled[2]]) == []
    assert len(controls([plain[2], shuffled[2]])) == 4  # to the end and stopped early, of both
