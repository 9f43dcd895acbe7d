"""Who is asked what, and in which order: a Latin square of originals and groups, fixed by a seed.

Each original has versions (one for each condition) and each annotator may see one of them. Annotators sit in groups
of as many as an item gets votes; group g is asked version (i + g) mod V of original i. So each group finishes a
balanced share of all items, and V groups finish everything.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from glasshouse.store.ballots import Item


@dataclass(frozen=True, slots=True)
class Table:
    """The items of a study as they are asked: versions by original, and the originals themselves.

    ``originals`` are by task and original. ``width`` is how many versions an original has, at most.
    """

    items: dict[str, Item]
    versions: dict[str, tuple[Item, ...]]
    originals: dict[tuple[str, str], Item]
    width: int
    seed: int

    @classmethod
    def of(cls, items: Iterable[Item], seed: int) -> Table:
        """Lay the items out; versions of each original stand in one order of the conditions.

        Items without a picture and degraded copies are known but not asked.
        """
        known = {item.id: item for item in sorted(items, key=_by_place)}
        rows: dict[str, list[Item]] = {}
        asked = [item for item in known.values() if item.image is not None and not item.degraded]
        for item in asked:
            if item.role != "original":
                rows.setdefault(item.original, []).append(item)
        versions = {
            original: tuple(sorted(row, key=lambda item: (item.task, item.condition, item.role, item.case_key)))
            for original, row in rows.items()
        }
        originals = {(item.task, item.original): item for item in asked if item.role == "original"}
        return cls(known, versions, originals, max(map(len, versions.values()), default=0), seed)

    def deck(self, seat: int, group: int, known: Collection[str] = ()) -> Iterator[Item]:
        """Versions of originals not known, in the order in which this annotator would rather be asked.

        One of a row at most is asked: who is asked it knows the original from then on.
        """
        rows = list(self.versions.items())
        for place in order(len(rows), seat, self.seed):
            original, versions = rows[place]
            if original not in known:
                yield from (item for item in latin_row(versions, place + group) if item.other not in known)

    def original_of(self, item: Item) -> Item | None:
        """The item that asks the same about the original itself."""
        return self.originals.get((item.task, item.original))

    def due_for_original(self, asked: int) -> bool:
        """Whether an annotator who was asked so many items comes to an original now: one after each full row.

        With as many annotators as all versions need, each original is so asked of as many people as each version.
        """
        return asked % (self.width + 1) == self.width


def _by_place(item: Item) -> tuple[int, str, str, str, str]:
    return item.place, item.task, item.role, item.condition, item.case_key


def latin_row(versions: Sequence[Item], start: int) -> Iterator[Item]:
    """The versions of one original, beginning with that of the Latin square."""
    for step in range(len(versions)):
        yield versions[(start + step) % len(versions)]


def needed(table: Table, votes_per_item: int) -> int:
    """How many annotators all items need, when nobody sees two versions of one original."""
    return votes_per_item * max(table.width, 1 if table.originals else 0)


def share(table: Table, votes_per_item: int, annotators: int) -> int:
    """How many items one of so many annotators is asked, about."""
    people = max(annotators, 1)
    wanted = -(-votes_per_item * sum(map(len, table.versions.values())) // people)
    originals = -(-votes_per_item * len(table.originals) // people)
    return min(wanted, len(table.versions)) + min(originals, len(table.originals))


@lru_cache(maxsize=256)
def order(count: int, seat: int, seed: int) -> tuple[int, ...]:
    """The order of the originals for one annotator."""
    return tuple(np.random.default_rng([seed, seat]).permutation(count).tolist())
