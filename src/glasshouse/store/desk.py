"""Asking and answering inside one open transaction: what is held for whom, what was answered, what is taken back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, text

from glasshouse.errors import VoteError
from glasshouse.store.assignment import Table
from glasshouse.store.ballots import Annotator, Item, Rules, Vote, check_vote, values_of
from glasshouse.store.claims import Chooser

VOTE_COLUMNS = "item, annotator, answer, forced, confidence, seconds, voted_at, grade"
VOTE_VALUES = ":item, :annotator, :answer, :forced, :confidence, :seconds, :when, :grade"

#: The turn after all that is held for an annotator, and the turn before it.
LAST = "(SELECT COALESCE(MAX(turn) + 1, 0) FROM reservations WHERE annotator = :annotator)"
FIRST = "(SELECT COALESCE(MIN(turn) - 1, 0) FROM reservations WHERE annotator = :annotator)"


@dataclass(frozen=True, slots=True)
class Desk:
    """The place where items go out and votes come in, as long as its transaction is open."""

    connection: Connection
    table: Table
    rules: Rules

    def annotator(self, identity: str) -> Annotator:
        """Somebody who was invited and may still vote."""
        person = find_annotator(self.connection, identity)
        if person.revoked:
            raise VoteError("This link was revoked: ask the study's owner for a new one.")
        return person

    def held(self, annotator: str) -> list[Item]:
        """What is reserved for an annotator, in the order in which it is asked."""
        query = text("SELECT item FROM reservations WHERE annotator = :annotator ORDER BY turn")
        return [self.table.items[item] for item in self.connection.execute(query, {"annotator": annotator}).scalars()]

    def claim(self, annotator: str, now: float, count: int) -> tuple[Item, ...]:
        """Hold ``count`` items for an annotator, or as many as there are left; what is held already comes first."""
        person = self.annotator(annotator)
        until = now + self.rules.hold_seconds
        self.connection.execute(
            text("UPDATE reservations SET expires = :until WHERE annotator = :annotator"),
            {"until": until, "annotator": person.id},
        )
        self.connection.execute(text("DELETE FROM reservations WHERE expires < :now"), {"now": now})
        held = self.held(person.id)
        chooser = Chooser(self.table, self.rules, person)
        while len(held) < count and (item := chooser.choose(self.connection)) is not None:
            self._reserve(item.id, person.id, LAST, until)
            held.append(item)
        self._show(held[:1], person.id)
        return tuple(held[:count])

    def take(self, vote: Vote) -> bool:
        """Turn what is held into a vote; False if this very vote is there already."""
        person = self.annotator(vote.annotator)
        item = self.table.items.get(vote.item)
        if item is None:
            raise VoteError(f"There is no item '{vote.item}': ask for the next one.")
        check_vote(vote, item)
        where = "WHERE item = :item AND annotator = :annotator"
        keys = {"item": item.id, "annotator": person.id}
        if self.connection.execute(text(f"DELETE FROM reservations {where}"), keys).rowcount:  # noqa: S608
            insert_votes(self.connection, [vote])
            return True
        query = text(f"SELECT answer, forced, confidence FROM votes {where}")  # noqa: S608
        before = self.connection.execute(query, keys).first()
        if before is None:
            raise VoteError("This item is not held for you any more: ask for the next one.")
        if tuple(before) != (vote.answer, vote.forced, vote.confidence):
            raise VoteError("This item was answered already: undo that answer first.")
        return False

    def undo(self, annotator: str, now: float, done: int | None = None) -> Item | None:
        """Turn the last vote into what is held, to be asked first; nothing where there are not ``done`` votes."""
        person = self.annotator(annotator)
        if done is not None and done != count_votes(self.connection, person.id):
            return None  # a copy of this undo came first
        query = text("SELECT item FROM votes WHERE annotator = :id ORDER BY voted_at DESC, item LIMIT 1")
        last = self.connection.execute(query, {"id": person.id}).scalar_one_or_none()
        if last is None:
            return None
        item = self.table.items[last]
        original = self.table.original_of(item)
        if original is not None:
            keys = {"item": original.id, "annotator": person.id}
            where = "WHERE item = :item AND annotator = :annotator"
            query = text(f"SELECT 1 FROM reservations {where} AND shown = 1")  # noqa: S608
            if self.connection.execute(query, keys).first() is not None:
                return None  # what was seen cannot be unseen
            # what was only fetched ahead is given back, and comes again after the new answer
            self.connection.execute(text(f"DELETE FROM reservations {where}"), keys)  # noqa: S608
        self.connection.execute(
            text("DELETE FROM votes WHERE item = :item AND annotator = :annotator"),
            {"item": item.id, "annotator": person.id},
        )
        self._reserve(item.id, person.id, FIRST, now + self.rules.hold_seconds)
        return item

    def _reserve(self, item: str, annotator: str, turn: str, until: float) -> None:
        self.connection.execute(
            text(f"INSERT INTO reservations VALUES (:item, :annotator, {turn}, :until, 0)"),  # noqa: S608
            {"item": item, "annotator": annotator, "until": until},
        )

    def _show(self, items: Sequence[Item], annotator: str) -> None:
        """Note what comes on the screen; what is held after it is only fetched ahead."""
        query = text("UPDATE reservations SET shown = 1 WHERE item = :item AND annotator = :annotator AND shown = 0")
        for item in items:
            self.connection.execute(query, {"item": item.id, "annotator": annotator})


def insert_votes(connection: Connection, votes: Sequence[Vote]) -> None:
    """Write votes; those that are there stay."""
    connection.execute(
        text(f"INSERT INTO votes ({VOTE_COLUMNS}) VALUES ({VOTE_VALUES}) ON CONFLICT DO NOTHING"),  # noqa: S608
        [values_of(vote) for vote in votes],
    )


def count_votes(connection: Connection, annotator: str) -> int:
    """How many votes an annotator gave."""
    query = text("SELECT COUNT(*) FROM votes WHERE annotator = :id")
    return int(connection.execute(query, {"id": annotator}).scalar_one())


def find_annotator(connection: Connection, identity: str) -> Annotator:
    """Somebody who was invited, revoked or not."""
    found = connection.execute(text("SELECT * FROM annotators WHERE id = :id"), {"id": identity}).mappings().first()
    if found is None:
        raise VoteError(f"There is no annotator '{identity}': invite one first.")
    return to_annotator(found)


def to_annotator(columns: Mapping[Any, Any]) -> Annotator:
    """An annotator from its row."""
    return Annotator(**{**columns, "revoked": bool(columns["revoked"])})
