"""Items, annotators, reservations and votes of one study. Every change is one transaction, and a vote stays."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, text
from sqlalchemy.exc import IntegrityError

from glasshouse import checks
from glasshouse.errors import VoteError
from glasshouse.store.assignment import Table, share
from glasshouse.store.ballots import Annotator, Item, Kind, Overview, Progress, Rules, Vote, check_answers, values_of
from glasshouse.store.database import Database
from glasshouse.store.desk import Desk, count_votes, find_annotator, insert_votes, to_annotator

HOUR = 3600.0

ITEM_COLUMNS = "id, task, role, original, other, condition, case_key, place, image, beside, answers, truth"


class Votes:
    """The votes of a study: in its SQLite file, or on a PostgreSQL server by its URL."""

    def __init__(self, where: Path | str) -> None:
        self._database = Database(where)
        self._table: tuple[tuple[int, int], Table] | None = None

    def close(self) -> None:
        """Let go of the database."""
        self._database.close()

    # rules and the owner

    def rules(self) -> Rules:
        """How items are shared out."""
        with self._database.reading() as connection:
            return _rules(connection)

    def set_rules(self, rules: Rules) -> None:
        """Change how items are shared out from now on."""
        checks.at_least("votes_per_item", rules.votes_per_item, 1)
        checks.at_least("hold_seconds", rules.hold_seconds, 1)
        self._database.write(
            "UPDATE annotation SET votes_per_item = :votes_per_item, hold_seconds = :hold_seconds, seed = :seed",
            [asdict(rules)],
        )

    def owner_hash(self) -> str | None:
        """The hash of the token that opens the owner's overview."""
        found: str | None = self._database.read("SELECT owner_hash FROM annotation")[0]["owner_hash"]
        return found

    def set_owner_hash(self, token_hash: str) -> None:
        """Let this token, and no earlier one, open the owner's overview."""
        self._database.write("UPDATE annotation SET owner_hash = :token_hash", [{"token_hash": token_hash}])

    # items

    def add_items(self, items: Iterable[Item]) -> None:
        """Add items; those that are there (the same task, role, case and place) stay as they are."""
        fresh = list(items)
        for item in fresh:
            check_answers(item.answers)
        rows = [{**values_of(item), "answers": json.dumps(item.answers)} for item in fresh]
        if not rows:
            return
        values = ", ".join(f":{column}" for column in ITEM_COLUMNS.split(", "))
        with self._database.writing() as connection:
            self._database.run_alone(connection)
            connection.execute(
                text(f"INSERT INTO items ({ITEM_COLUMNS}) VALUES ({values}) ON CONFLICT DO NOTHING"),  # noqa: S608
                rows,
            )
            connection.execute(text("UPDATE annotation SET items_version = items_version + 1"))

    def items(self) -> list[Item]:
        """Every item, by place and task."""
        return list(self.table().items.values())

    def item(self, identity: str) -> Item | None:
        """One item by its opaque id."""
        return self.table().items.get(identity)

    def table(self) -> Table:
        """The items as they are asked, read anew only when items were added."""
        with self._database.reading() as connection:
            return self._current_table(connection)

    # annotators

    def invite(self, name: str, token_hash: str | None = None, kind: Kind = "human") -> Annotator:
        """Add an annotator; the name must be new among its kind."""
        with self._database.writing() as connection:
            self._database.run_alone(connection)
            seat = connection.execute(
                text("SELECT COALESCE(MAX(seat) + 1, 0) FROM annotators WHERE kind = :kind"), {"kind": kind}
            ).scalar_one()
            annotator = Annotator(secrets.token_hex(16), name, kind, seat, token_hash)
            try:
                connection.execute(
                    text("INSERT INTO annotators VALUES (:id, :name, :kind, :seat, :token_hash, 0)"), asdict(annotator)
                )
            except IntegrityError as error:
                raise VoteError(f"There is a {kind} called '{name}' already: choose another name.") from error
        return annotator

    def annotators(self) -> list[Annotator]:
        """Everybody who was invited, in order, kind by kind."""
        return [to_annotator(row) for row in self._database.read("SELECT * FROM annotators ORDER BY kind, seat")]

    def annotator_by_hash(self, token_hash: str) -> Annotator | None:
        """The annotator whose link carries the token of this hash, revoked or not."""
        rows = self._database.read("SELECT * FROM annotators WHERE token_hash = :token_hash", token_hash=token_hash)
        return to_annotator(rows[0]) if rows else None

    def revoke(self, annotator: str) -> None:
        """End an annotator's access; the votes stay, what was held for it is free again."""
        with self._database.writing() as connection:
            self._database.run_alone(connection)
            person = find_annotator(connection, annotator)
            connection.execute(text("UPDATE annotators SET revoked = 1 WHERE id = :id"), {"id": person.id})
            connection.execute(text("DELETE FROM reservations WHERE annotator = :id"), {"id": person.id})

    # asking and answering

    def claim(self, annotator: str, now: float, count: int = 1) -> tuple[Item, ...]:
        """Reserve and return the item that this annotator is asked next, and up to ``count`` - 1 after it.

        What is reserved already comes first, so a reload shows the same item. Empty when the annotator is done.
        """
        with self._desk(lasting=False) as desk:
            return desk.claim(annotator, now, count)

    def vote(self, vote: Vote) -> bool:
        """Take the answer to an item that is reserved for its annotator; False if this very vote is there already."""
        with self._desk(alone=False) as desk:  # a reservation becomes a vote: no place is taken or freed
            return desk.take(vote)

    def vote_and_claim(self, vote: Vote, now: float, count: int = 1) -> tuple[Item, ...]:
        """Take an answer and return what is asked next, in one transaction: half the wait for the disk."""
        with self._desk() as desk:
            desk.take(vote)
            return desk.claim(vote.annotator, now, count)

    def undo(self, annotator: str, now: float, done: int | None = None) -> Item | None:
        """Take back the annotator's last vote, the one that made it ``done`` votes, and ask that item again.

        None where there is no such vote, or where its original was shown since: what was seen cannot be unseen.
        """
        with self._desk() as desk:
            return desk.undo(annotator, now, done)

    def record(self, votes: Iterable[Vote]) -> int:
        """Write votes given elsewhere: imported ones, or those of judges; how many are new, since others stay."""
        rows = list(votes)
        if not rows:
            return 0
        count = text("SELECT COUNT(*) FROM votes")
        with self._database.writing() as connection:
            self._database.run_alone(connection)
            before = connection.execute(count).scalar_one()
            insert_votes(connection, rows)
            return int(connection.execute(count).scalar_one() - before)

    # looking

    def votes(self, kind: Kind | None = "human") -> list[Vote]:
        """The votes of one kind in the order of time; of all kinds only where None asks for it."""
        rows = self._database.read(
            "SELECT v.* FROM votes v JOIN annotators a ON a.id = v.annotator "
            "WHERE CAST(:kind AS TEXT) IS NULL OR a.kind = :kind ORDER BY v.voted_at, v.item, v.annotator",
            kind=kind,
        )
        return [_vote(row) for row in rows]

    def progress(self, annotator: str) -> Progress:
        """How many votes this annotator gave, and about how many it will be asked for."""
        with self._database.reading() as connection:
            done = count_votes(connection, annotator)
            held = connection.execute(
                text("SELECT COUNT(*) FROM reservations WHERE annotator = :id"), {"id": annotator}
            ).scalar_one()
            people = connection.execute(
                text("SELECT COUNT(*) FROM annotators WHERE kind = 'human' AND revoked = 0")
            ).scalar_one()
            expected = share(self._current_table(connection), _rules(connection).votes_per_item, people)
            return Progress(done, max(expected, done + held))

    def overview(self, now: float) -> Overview:
        """Counts for the study's owner, over people's votes alone."""
        row = self._database.read(
            "WITH people AS (SELECT v.item, v.voted_at FROM votes v JOIN annotators a ON a.id = v.annotator "
            "WHERE a.kind = 'human') SELECT "
            "(SELECT COUNT(*) FROM items) AS items, "
            "(SELECT COUNT(*) FROM (SELECT item FROM people GROUP BY item "
            "HAVING COUNT(*) >= (SELECT votes_per_item FROM annotation)) AS full_items) AS complete, "
            "(SELECT COUNT(*) FROM people) AS votes, "
            "(SELECT COUNT(*) FROM people WHERE voted_at > :since) AS votes_last_hour, "
            "(SELECT COUNT(*) FROM annotators WHERE kind = 'human' AND revoked = 0) AS annotators",
            since=now - HOUR,
        )[0]
        return Overview(**row)

    # inside a transaction

    @contextmanager
    def _desk(self, *, alone: bool = True, lasting: bool = True) -> Iterator[Desk]:
        """A transaction in which items go out and votes come in, alone where places are given away."""
        with self._database.writing(lasting=lasting) as connection:
            if alone:
                self._database.run_alone(connection)
            yield Desk(connection, self._current_table(connection), _rules(connection))

    def _current_table(self, connection: Connection) -> Table:
        version, seed = connection.execute(text("SELECT items_version, seed FROM annotation")).one()
        if self._table is None or self._table[0] != (version, seed):
            rows = connection.execute(text(f"SELECT {ITEM_COLUMNS} FROM items")).mappings()  # noqa: S608
            items = [Item(**{**row, "answers": tuple(json.loads(row["answers"]))}) for row in rows]
            self._table = (version, seed), Table.of(items, seed)
        return self._table[1]


def _rules(connection: Connection) -> Rules:
    row = connection.execute(text("SELECT votes_per_item, hold_seconds, seed FROM annotation")).mappings().one()
    return Rules(**row)


def _vote(row: dict[str, Any]) -> Vote:
    return Vote(when=row.pop("voted_at"), **row)
