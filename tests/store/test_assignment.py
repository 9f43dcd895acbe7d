"""The Latin square: balanced, fixed by its seed, and every version once in each row."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from glasshouse.store import Item
from glasshouse.store.assignment import Table, latin_row, needed, order, share


def make_table(originals, versions, seed=0):
    items = [
        Item(
            id=f"{place}/{version}",
            task="pair",
            role="reconstruction",
            original=str(place),
            condition=str(version),
            case_key=str(version),
            place=place,
            answers=("same", "different"),
            image="images/a.png",
        )
        for place in range(originals)
        for version in range(versions)
    ]
    return Table.of(items, seed)


@settings(deadline=None, max_examples=50)
@given(originals=st.integers(1, 12), versions=st.integers(1, 6), seed=st.integers(0, 2**31 - 1))
def test_the_first_choices_of_groups_are_a_latin_square(originals, versions, seed):
    table = make_table(originals, versions, seed)
    firsts = []
    for group in range(versions):
        first = {}
        for item in table.deck(seat=group, group=group):
            first.setdefault(item.original, item.condition)
        assert set(first) == {str(place) for place in range(originals)}
        firsts.append(first)
    for place in range(originals):  # each version of an original is the first choice of one group
        assert sorted(first[str(place)] for first in firsts) == sorted(map(str, range(versions)))
    for first in firsts:  # each group meets every condition as often as any other, to one
        counts = Counter(first.values())
        assert max(counts.values()) - min(counts[str(v)] for v in range(versions)) <= 1


@settings(deadline=None, max_examples=50)
@given(versions=st.integers(1, 9), start=st.integers(0, 100))
def test_a_row_holds_each_version_once(versions, start):
    items = make_table(1, versions).versions["0"]
    row = list(latin_row(items, start))
    assert sorted(item.id for item in row) == sorted(item.id for item in items)
    assert row[0] == items[start % versions]


@given(count=st.integers(0, 40), seat=st.integers(0, 99), seed=st.integers(0, 2**31 - 1))
def test_an_order_is_a_permutation_fixed_by_seat_and_seed(count, seat, seed):
    once = order(count, seat, seed)
    order.cache_clear()
    assert once == order(count, seat, seed)
    assert sorted(once) == list(range(count))


def test_orders_differ_between_annotators():
    assert len({order(20, seat, 0) for seat in range(5)}) == 5


def test_what_was_seen_is_left_out_of_a_deck():
    table = make_table(3, 2)
    assert {item.original for item in table.deck(0, 0, {"1"})} == {"0", "2"}


def test_how_many_people_are_needed_and_what_each_is_asked():
    table = make_table(10, 6)
    assert needed(table, 5) == 30
    assert share(table, 5, 30) == 10
    assert share(table, 5, 5) == 10
    assert share(table, 5, 300) == 1
    assert needed(Table.of([], 0), 5) == 0
