"""The judgement rule, against an independent count, and where the reference comes from."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from glasshouse.store import Item, Vote
from glasshouse.votes.judgement import judge

CHOICES = ("cat", "dog", "bird")


def make_item(role="reconstruction", truth="cat"):
    return Item(role, "classification", role, "o", "c", role, 0, CHOICES, truth)


def cast(item, answers):
    return [Vote(item.id, str(number), answer) for number, answer in enumerate(answers)]


answers = st.lists(st.sampled_from([*CHOICES, None]), min_size=1, max_size=9)


@given(about_original=st.lists(st.sampled_from([*CHOICES, None]), max_size=9), about_item=answers)
def test_the_rule_as_the_design_words_it(about_original, about_item):
    original, item = make_item("original"), make_item()
    found = judge([original, item], cast(original, about_original) + cast(item, about_item))[item.id]
    reference, basis = "cat", "truth"
    if len(about_original) >= 3:
        answer, count = Counter(about_original).most_common(1)[0]
        if count > len(about_original) / 2:
            reference, basis = answer, "original"
    assert (found.reference.answer, found.reference.basis) == (reference, basis)
    share = about_item.count(reference) / len(about_item) if reference is not None else 0
    assert found.recognised == (share > 0.5)
    assert found.votes == len(about_item)


def test_forced_choices_stand_beside_none():
    item = make_item()
    votes = [Vote(item.id, "a", "cat"), Vote(item.id, "b", None, forced="cat"), Vote(item.id, "c", None, forced="dog")]
    found = judge([item], votes)[item.id]
    assert (found.matching, found.recognised) == (1, False)
    assert (found.forced_matching, found.forced_recognised) == (2, True)


def test_an_original_that_nobody_can_tell_has_no_reference():
    original, item = make_item("original"), make_item()
    found = judge([original, item], cast(original, [None] * 5) + cast(item, ["cat"] * 5))
    assert found[item.id].reference.answer is None
    assert found[item.id].reference.basis == "original"
    assert not found[item.id].recognised


def test_items_without_votes_are_not_judged():
    assert judge([make_item()], []) == {}
