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
        answered, shown = self._seen(connection)
        versions = self._versions(shown)
        originals = self._answered_originals(answered, shown)
        due = self.table.due_for_original(len(shown))
        first, second = (originals, versions) if due else (versions, originals)
        wanted = chain(first, second, self._other_originals(shown))
        return self._first_with_a_place(connection, wanted)

    def _seen(self, connection: Connection) -> tuple[list[Item], list[Item]]:
        """The items that this annotator answered, and all that it was shown, in the order of time."""
        rows = connection.execute(SEEN, {"annotator": self.annotator.id}).all()
        items = self.table.items
        answered = [items[row.item] for row in rows if row.answered]
        return answered, [items[row.item] for row in rows]

    def _versions(self, shown: list[Item]) -> Iterator[Item]:
        """Versions of originals of which nothing was shown, in this annotator's order."""
        known = frozenset[str]().union(*(item.shows for item in shown))
        group = self.annotator.seat // self.rules.votes_per_item
        deck = (self.table.items[item] for item in self.table.deck(self.annotator.seat, group))
        return (item for item in deck if not item.shows & known)

    def _answered_originals(self, answered: list[Item], shown: list[Item]) -> Iterator[Item]:
        """Originals of which a version was answered, those answered long ago first."""
        known = {item.id for item in shown}
        held = {original for item in shown for original in item.shows} - {
            original for item in answered for original in item.shows
        }
        for item in answered:
            original = self.table.originals.get(item.original)
            if original is not None and original not in known and item.original not in held:
                yield self.table.items[original]

    def _other_originals(self, shown: list[Item]) -> Iterator[Item]:
        """Originals of which nothing was shown. They come last: by then none of their versions has a place left."""
        known = frozenset[str]().union(*(item.shows for item in shown))
        return (self.table.items[item] for original, item in self.table.originals.items() if original not in known)

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
