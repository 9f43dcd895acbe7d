"""Counting has a rule of its own: near the original's number is leaked."""

from __future__ import annotations

import pytest

from glasshouse.errors import SettingError
from glasshouse.registry import to_spec
from glasshouse.votes import tasks


def test_the_answers_are_numbers_and_the_question_names_what_is_counted():
    task = tasks.create("counting:what=cars,most=3")
    assert task.answers([]) == ("0", "1", "2", "3", "more than 3")
    assert task.question == "How many cars are in this picture?"
    assert task.truth("original", "street") is None
    assert tasks.create(to_spec(task)) == task


@pytest.mark.parametrize(("tolerance", "leaked"), [(0, False), (1, True)])
def test_the_tolerance_says_how_near_is_near(tolerance, leaked):
    task = tasks.create(f"counting:tolerance={tolerance}")
    assert task.recognised(["4", "6", "5"], "5") is leaked
    assert task.recognised(["5", "5", None], "5")
    assert not task.recognised(["3", "7", None], "5")


def test_more_than_the_most_is_one_number_further():
    task = tasks.create("counting:most=3,tolerance=1")
    assert task.matches("more than 3", "3")
    assert not task.matches("more than 3", "2")


def test_settings_out_of_range_are_refused():
    for spec in ("counting:most=0", "counting:most=50", "counting:tolerance=-1"):
        with pytest.raises(SettingError, match="out of range"):
            tasks.create(spec)
