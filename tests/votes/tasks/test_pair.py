"""Pairs are the same or different, and a decoy is different."""

from __future__ import annotations

from glasshouse.votes import tasks

TASK = tasks.create("pair")


def test_answers_and_truths():
    assert TASK.answers(["whatever"]) == ("same", "different")
    assert TASK.truth("reconstruction", "cat") == TASK.truth("shuffled", "cat") == "same"
    assert TASK.truth("decoy", "cat") == "different"


def test_the_original_stands_beside_and_is_not_asked_alone():
    assert TASK.shows_original
    assert not TASK.asks_originals
    assert TASK.none is None


def test_most_must_call_a_pair_the_same():
    assert TASK.recognised(["same", "same", "different"], "same")
    assert not TASK.recognised(["same", "different"], "same")
