"""Which item an annotator is asked next, inside the transaction that reserves it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice

from sqlalchemy import Connection, bindparam, text

from glasshouse.store.assignment import Table
from glasshouse.store.ballots import Annotator, Item, Rules

#: Votes of people and reservations stand for the same: a place that is taken.
TAKEN = text(
    "SELECT item, COUNT(*) AS taken FROM ("
    "SELECT v.item FROM votes v JOIN annotators a ON a.id = v.annotator WHERE a.kind = 'human' AND v.item IN :items "
    "UNION ALL SELECT r.item FROM reservations r WHERE r.item IN :items) AS places GROUP BY item"
).bindparams(bindparam("items", expanding=True))

SEEN = text(
    "SELECT item, 1 AS answered, voted_at AS at FROM votes WHERE annotator = :annotator "
    "UNION ALL SELECT item, 0, 0 FROM reservations WHERE annotator = :annotator ORDER BY at"
)

FIRST_LOOK = 32


@dataclass(frozen=True, slots=True)
class Chooser:
    """Chooses the next item of one annotator by the rules of the study.

    Nobody sees two versions of one original. The original itself is asked of those who have answered a version of
    it, or will never see one: after it is shown, no version is.
    """

    table: Table
    rules: Rules
    annotator: Annotator

    def choose(self, connection: Connection) -> Item | None:
        """The next item that has a place left, or None where this annotator is done."""
        rows = connection.execute(SEEN, {"annotator": self.annotator.id}).all()
        shown = [self.table.items[row.item] for row in rows]
        known = {original for item in shown for original in item.shows}
        answered = [item for item, row in zip(shown, rows, strict=True) if row.answered]
        group = self.annotator.seat // self.rules.votes_per_item
        versions = self.table.deck(self.annotator.seat, group, known)
        originals = self._originals_of(answered, {item.id for item in shown})
        first, second = (originals, versions) if self.table.due_for_original(len(shown)) else (versions, originals)
        # by the time these come up, no version of them has a place left, so this annotator will never see one
        unseen = (item for item in self.table.originals.values() if item.original not in known)
        return self._first_with_a_place(connection, chain(first, second, unseen))

    def _originals_of(self, answered: list[Item], asked: set[str]) -> Iterator[Item]:
        """Originals that were not asked yet and of which a version is answered, those answered long ago first."""
        found = map(self.table.original_of, answered)
        return (item for item in found if item is not None and item.id not in asked)

    def _first_with_a_place(self, connection: Connection, wanted: Iterator[Item]) -> Item | None:
        look = FIRST_LOOK
        while some := list(islice(wanted, look)):
            rows = connection.execute(TAKEN, {"items": [item.id for item in some]})
            taken = {row.item: row.taken for row in rows}
            for item in some:
                if taken.get(item.id, 0) < self.rules.votes_per_item:
                    return item
            look *= 4  # near the end most items are full: few long looks cost less than many short ones
        return None
