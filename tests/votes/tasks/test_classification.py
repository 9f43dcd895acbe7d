"""Classification asks for one of the candidates, and naming the reference leaks."""

from __future__ import annotations

import pytest

from glasshouse.votes import tasks

TASK = tasks.create("classification")


def test_the_candidates_are_the_answers_and_the_class_is_the_truth():
    assert TASK.answers(["cat", "dog"]) == ("cat", "dog")
    assert TASK.truth("reconstruction", "cat") == "cat"
    assert TASK.asks_originals
    assert not TASK.shows_original
    assert TASK.question.endswith("?")


@pytest.mark.parametrize(
    ("answers", "recognised"),
    [
        (["cat"] * 3 + ["dog"] * 2, True),
        (["cat"] * 2 + ["dog"] + [None] * 2, False),  # most of those who said something, not most of all
        (["cat"] * 2 + ["dog"] * 2, False),  # half is not more than half
        ([None] * 5, False),
        (["cat"], True),
    ],
)
def test_more_than_half_of_all_votes_must_match(answers, recognised):
    assert TASK.recognised(answers, "cat") is recognised


def test_without_a_reference_nothing_is_recognised():
    assert not TASK.recognised(["cat", None], None)
