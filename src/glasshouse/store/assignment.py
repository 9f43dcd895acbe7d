"""Who is asked what, and in which order: a Latin square of originals and groups, fixed by a seed.

Each original has versions (one for each condition) and each annotator may see one of them. Annotators sit in groups
of as many as an item gets votes; group g is asked version (i + g) mod V of original i. So each group finishes a
balanced share of all items, and V groups finish everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from glasshouse.store.ballots import Item


@dataclass(frozen=True, slots=True)
class Table:
    """The items of a study as they are asked: versions by original, and the originals themselves."""

    items: dict[str, Item]
    versions: tuple[tuple[str, ...], ...]
    originals: dict[str, str]
    seed: int

    @classmethod
    def of(cls, items: Iterable[Item], seed: int) -> Table:
        """Lay the items out; versions of each original stand in one order of the conditions."""
        known = {item.id: item for item in sorted(items, key=lambda item: (item.place, item.task, item.role))}
        rows: dict[str, list[Item]] = {}
        for item in known.values():
            if item.role != "original":
                rows.setdefault(item.original, []).append(item)
        versions = tuple(
            tuple(item.id for item in sorted(row, key=lambda item: (item.task, item.case_key, item.role)))
            for row in rows.values()
        )
        originals = {item.original: item.id for item in known.values() if item.role == "original"}
        return cls(known, versions, originals, seed)

    @property
    def width(self) -> int:
        """How many versions an original has, at most."""
        return max((len(row) for row in self.versions), default=0)

    def deck(self, seat: int, group: int) -> Iterator[str]:
        """Every version in the order in which this annotator would rather be asked; one of a row at most is."""
        for row in _order(len(self.versions), seat, self.seed):
            yield from latin_row(self.versions[row], row + group)

    def due_for_original(self, asked: int) -> bool:
        """Whether an annotator who was asked so many items comes to an original now: one after each full row.

        With as many annotators as all versions need, each original is so asked of as many people as each version.
        """
        return asked % (self.width + 1) == self.width


def latin_row(versions: Sequence[str], start: int) -> Iterator[str]:
    """The versions of one original, beginning with that of the Latin square."""
    for step in range(len(versions)):
        yield versions[(start + step) % len(versions)]


def needed(table: Table, votes_per_item: int) -> int:
    """How many annotators all items need, when nobody sees two versions of one original."""
    return votes_per_item * max(table.width, 1 if table.originals else 0)


def share(table: Table, votes_per_item: int, annotators: int) -> int:
    """How many items one of so many annotators is asked, about."""
    people = max(annotators, 1)
    wanted = -(-votes_per_item * sum(map(len, table.versions)) // people)
    originals = -(-votes_per_item * len(table.originals) // people)
    return min(wanted, len(table.versions)) + min(originals, len(table.originals))


def _order(count: int, seat: int, seed: int) -> list[int]:
    """The order of the originals for one annotator."""
    return [int(place) for place in np.random.default_rng([seed, seat]).permutation(count)]
