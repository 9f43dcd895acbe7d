"""One database of a study: a SQLite file, or a PostgreSQL server by its URL, behind the same few calls."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DatabaseError, NoSuchModuleError

from glasshouse.errors import StudyError
from glasshouse.failpoints import failpoint
from glasshouse.store.migrations import migrate

DATABASE_FILE = "glasshouse.db"

POSTGRESQL = "postgresql"

#: What PostgreSQL holds while one transaction must run alone; any number that nobody else uses in this database.
LOCK_NUMBER = 0x67_6C_61_73


class Database:
    """The file or server that a study's records lie in, brought to the newest schema when it is opened."""

    def __init__(self, where: Path | str) -> None:
        self._engine = _sqlite(where) if isinstance(where, Path) else _by_url(where)
        self.name = str(where) if isinstance(where, Path) else self._engine.url.render_as_string(hide_password=True)
        self._server = self._engine.dialect.name == POSTGRESQL
        # SQLite lets writers wait by trying again and again; threads of one process wait in line instead
        self._turn: AbstractContextManager[object] = nullcontext() if self._server else threading.Lock()
        try:
            with self._engine.begin() as connection:
                self.run_alone(connection)
                migrate(connection)
        except DatabaseError as error:
            self.close()
            raise StudyError(_unusable(self.name, self._server, error)) from error

    def close(self) -> None:
        """Let go of the file or the server."""
        self._engine.dispose()

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """One transaction, all or nothing, on disk when the block ends."""
        with self._turn:
            with self._engine.begin() as connection:
                yield connection
                failpoint("store.before_commit")
            failpoint("store.after_commit")

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """One consistent look that keeps no writer waiting."""
        with self._engine.connect() as connection:
            yield connection.execution_options(reading=True)

    def run_alone(self, connection: Connection) -> None:
        """Wait until no other transaction that asked for this is under way; a writer of SQLite always is alone."""
        if self._server:
            connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": LOCK_NUMBER})

    def write(self, statement: str, rows: Sequence[dict[str, Any]]) -> None:
        """Run one statement for each row, all or nothing."""
        if not rows:
            return
        with self.writing() as connection:
            connection.execute(text(statement), rows)

    def read(self, statement: str, **values: object) -> list[dict[str, Any]]:
        """The rows of a query."""
        with self.reading() as connection:
            return [dict(row) for row in connection.execute(text(statement), values).mappings()]


def _by_url(where: str) -> Engine:
    try:
        url = make_url(where)
        if url.get_backend_name() == "sqlite" and url.database:
            return _sqlite(Path(url.database))
        if url.get_backend_name() == POSTGRESQL:
            return create_engine(url, pool_size=10, max_overflow=10, pool_pre_ping=True)
    except (ArgumentError, NoSuchModuleError):
        pass
    except ModuleNotFoundError as error:
        raise StudyError(f"{error.name} is not installed: pip install 'glasshouse[annotate]'.") from error
    raise StudyError(
        f"'{where.partition('://')[0]}' is not a database that we know: "
        "write sqlite:///FILE or postgresql+psycopg://USER:PASSWORD@HOST:PORT/DATABASE."
    )


def _sqlite(file: Path) -> Engine:
    engine = create_engine(f"sqlite:///{file}", pool_size=10, max_overflow=40)

    @event.listens_for(engine, "connect")
    def configure(connection: Any, record: object) -> None:
        """Survive a kill at any moment, and wait for another writer instead of failing."""
        connection.isolation_level = None  # transactions begin where we say, also around CREATE TABLE
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "busy_timeout=10000", "foreign_keys=ON"):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        reading = connection.get_execution_options().get("reading", False)
        connection.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")

    return engine


def _unusable(name: str, server: bool, error: DatabaseError) -> str:
    reason = " ".join(str(error.orig).split())
    if server:
        return f"{name} cannot be used ({reason}): start the server, or mend the URL."
    return f"{name} is not a usable database ({reason}): move it away and run again."
