"""A damaged database: what is still right is kept, the rest goes, and the next run computes it anew.

SQLite finds damage to the order of its pages, the seals of rows find damage to what they hold.
"""

from __future__ import annotations

import json
import logging
import sqlite3
from collections import defaultdict
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from glasshouse.errors import StudyError
from glasshouse.files import UNFINISHED
from glasshouse.store.database import Database
from glasshouse.store.seals import Held, sealed, sealed_case

log = logging.getLogger(__name__)

DAMAGED = ".damaged"
#: What can be computed anew, or is known elsewhere; of all else every row must be readable.
COMPUTED = ("study", "images", "cases", "reconstructions", "scores", "targets", "probes")
_IMAGE = ("place", "identity", "label", "class_name", "file", "sha256")
_SCORE = ("case_key", "place", "metric", "value")


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose results a database says that it holds: nobody's where none has claimed them, or it cannot be read whose."""

    name: str | None = None
    readable: bool = True


def owner_of(file: Path) -> Owner:
    """Whose a database is, before anything is written to it: what is another's is not ours to mend."""
    try:
        with closing(_connected(file)) as connection:
            if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'study'").fetchall():
                return Owner()  # older than names, or empty
            rows = connection.execute("SELECT name, seal FROM study").fetchall()
    except sqlite3.OperationalError as error:  # no damage: a place that cannot be read, or one that is busy
        raise StudyError(_unusable(file, error)) from error
    except (sqlite3.DatabaseError, UnicodeDecodeError):
        return Owner(readable=False)
    return next((Owner(row["name"]) if _agrees(row, "name") else Owner(readable=False) for row in rows), Owner())


def mend(file: Path) -> None:
    """Take what is damaged out of a study's database; only the owner of the study's directory may.

    A database whose pages are out of order is written anew from the rows that can be read, and kept beside as
    ``NAME.damaged``; one that holds nothing readable, or votes that cannot be read, is refused.
    """
    if not file.exists():
        return
    try:
        if not _in_order(file):
            _rebuild(file)
        Database(file).close()  # an older schema has no seals
        with closing(_connected(file)) as connection, connection:
            connection.execute("BEGIN IMMEDIATE")  # a case that is finished between two looks would not fit its seal
            held = _held(connection)
            _drop(connection, "study", lambda row: _agrees(row, "name"))
            _drop(connection, "images", lambda row: _agrees(row, *_IMAGE))
            _drop(connection, "scores", lambda row: _agrees(row, *_SCORE))
            for table in ("targets", "probes"):
                _drop(connection, table, lambda row: _described(row) and _agrees(row, "key", "outcome"))
            _drop(connection, "cases", lambda row: _described(row) and _is_whole(row, held[row["key"]]))
            connection.execute("DELETE FROM reconstructions WHERE case_key NOT IN (SELECT key FROM cases)")
    except (sqlite3.Error, OSError) as error:
        raise StudyError(_unusable(file, error)) from error


def _unusable(file: Path, error: Exception) -> str:
    return (
        f"{file} is not a usable database ({error}): see that its place can be written to and has room; if it is "
        "damaged beyond that, move it away and run the same command again, which computes all anew."
    )


def _connected(file: Path, patience: float = 10) -> sqlite3.Connection:
    """A connection that reads damaged text as it is, and lets rows go in any order."""
    connection = sqlite3.connect(file, timeout=patience)
    connection.text_factory = lambda content: content.decode(errors="surrogateescape")
    connection.row_factory = sqlite3.Row
    return connection


def _in_order(file: Path) -> bool:
    """Whether SQLite finds nothing wrong with pages, indexes and constraints."""
    try:
        with closing(_connected(file)) as connection:
            return [tuple(row) for row in connection.execute("PRAGMA integrity_check(1)")] == [("ok",)]
    except sqlite3.OperationalError:  # no damage: a place that cannot be written to, or is full
        raise
    except (sqlite3.DatabaseError, UnicodeDecodeError):  # damaged names are no text any more
        return False


def _rebuild(file: Path) -> None:
    """Write a database anew from what can be read of it, and keep a copy of the damaged one.

    SQLite itself copies page by page, in one transaction and with what only its log holds, so that nobody who opens
    the file meanwhile writes into one that is about to go.
    """
    fresh, damaged = file.with_name(f".{file.name}{UNFINISHED}"), file.with_name(file.name + DAMAGED)
    fresh.unlink(missing_ok=True)
    Database(fresh).close()
    with closing(_alone(file)) as old, closing(_connected(fresh)) as new:
        with new:
            for table in [row["name"] for row in new.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]:
                _copy(file, old, new, table)
        damaged.unlink(missing_ok=True)
        with closing(_connected(damaged)) as copy:
            old.backup(copy)
        new.backup(old)
    fresh.unlink()
    log.warning("%s was damaged: what could not be read is computed anew; it is kept as %s.", file, damaged.name)


def _alone(file: Path) -> sqlite3.Connection:
    """A connection beside which nobody has a database open, as long as it lasts: what others write would be lost."""
    connection = _connected(file, patience=0)
    try:
        for statement in ("PRAGMA locking_mode=EXCLUSIVE", "BEGIN EXCLUSIVE", "COMMIT"):
            connection.execute(statement)
    except sqlite3.Error as error:
        connection.close()
        if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
            raise
        raise StudyError(
            f"{file} is damaged, and cannot be mended while another program has it open: end that one ('glasshouse "
            "annotate serve', for example), and run the same command again."
        ) from error
    return connection


def _copy(file: Path, old: sqlite3.Connection, new: sqlite3.Connection, table: str) -> None:
    readable, whole = _readable(old, table)
    rows = [row for row in readable if _is_text(row)]
    if not (whole and len(rows) == len(readable)) and table not in COMPUTED:
        raise StudyError(
            f"{file} is damaged where votes are kept ({table}), which nobody can compute anew: put a copy in its "
            "place, or move it away and run the same command again without them."
        )
    for row in rows:
        columns, marks = ", ".join(row.keys()), ", ".join("?" * len(row))
        new.execute(f"INSERT OR REPLACE INTO {table} ({columns}) VALUES ({marks})", tuple(row))  # noqa: S608 - names of our own


def _readable(old: sqlite3.Connection, table: str) -> tuple[list[sqlite3.Row], bool]:
    """The rows before a damaged page and those behind it, and whether these are all."""
    found: list[sqlite3.Row] = []
    for order in ("ASC", "DESC"):
        try:
            for row in old.execute(f"SELECT * FROM {table} ORDER BY rowid {order}"):  # noqa: S608 - a name of our own
                found.append(row)
        except (sqlite3.DatabaseError, UnicodeDecodeError):
            continue
        return found, order == "ASC"
    return found, False


def _held(connection: sqlite3.Connection) -> dict[str, list[Held]]:
    """The pictures of every case."""
    found: dict[str, list[Held]] = defaultdict(list)
    for row in connection.execute("SELECT case_key, place, file, sha256 FROM reconstructions"):
        found[row["case_key"]].append((row["place"], row["file"], row["sha256"]))
    return found


def _agrees(row: sqlite3.Row, *names: str) -> bool:
    """Whether a row is as it was sealed; what is not finished, or older than seals, has none."""
    return row["seal"] is None or row["seal"] == sealed([row[name] for name in names])


def _is_whole(row: sqlite3.Row, held: list[Held]) -> bool:
    """Whether a case is as it was sealed, and so are its reconstructions."""
    return row["state"] != "done" or row["seal"] in (None, sealed_case(row["key"], row["outcome"], held))


def _is_text(row: sqlite3.Row) -> bool:
    """Whether every text of a row is one: damage leaves bytes that are no UTF-8, which nobody else can read."""
    try:
        return all(value.encode() is not None for value in row if isinstance(value, str))
    except UnicodeEncodeError:
        return False


def _described(row: sqlite3.Row) -> bool:
    """Whether it can be read what a case or a target is about."""
    try:
        return isinstance(json.loads(row["described"]), dict)
    except ValueError:
        return False


def _drop(connection: sqlite3.Connection, table: str, is_right: Callable[[sqlite3.Row], bool]) -> None:
    """Delete the rows of a table that are not right."""
    rows = connection.execute(f"SELECT rowid AS number, * FROM {table}")  # noqa: S608 - a name of our own
    wrong = [(row["number"],) for row in rows if not (_is_text(row) and is_right(row))]
    if wrong:
        log.warning("%d of the %s were damaged and are computed anew.", len(wrong), table)
    connection.executemany(f"DELETE FROM {table} WHERE rowid = ?", wrong)  # noqa: S608 - as above
