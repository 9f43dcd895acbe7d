"""One database of a study: a SQLite file, or a PostgreSQL server by its URL, behind the same few calls."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from threading import Lock
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DatabaseError, DataError, IntegrityError, ProgrammingError

from glasshouse import checks
from glasshouse.errors import StudyError
from glasshouse.failpoints import failpoint
from glasshouse.store.migrations import migrate
from glasshouse.urls import without_password

DATABASE_FILE = "glasshouse.db"

POSTGRESQL = "postgresql"
DRIVER = "psycopg"
SERVERS = (POSTGRESQL, "postgres", f"{POSTGRESQL}+{DRIVER}")  # as its own programs and SQLAlchemy write it

#: What PostgreSQL holds while one transaction must run alone; any number that nobody else uses in this database.
LOCK_NUMBER = 0x67_6C_61_73

#: What PostgreSQL holds while a run works on a study.
RUN_NUMBER = LOCK_NUMBER + 1


class Queue:
    """A lock that is given to those who wait in the order in which they came, so that nobody waits long."""

    def __init__(self) -> None:
        self._guard = Lock()
        self._waiting: deque[Lock] = deque()
        self._held = False

    def __enter__(self) -> None:
        with self._guard:
            if not self._held:
                self._held = True
                return
            mine = Lock()
            mine.acquire()
            self._waiting.append(mine)
        mine.acquire()

    def __exit__(self, *error: object) -> None:
        with self._guard:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._held = False


class Database:
    """The file or server that a study's records lie in, brought to the newest schema when it is opened."""

    def __init__(self, where: Path | str) -> None:
        file = file_of(where)
        self._engine = _by_url(str(where)) if file is None else _sqlite(file)
        self.name = str(where) if isinstance(where, Path) else without_password(where)
        self._server = self._engine.dialect.name == POSTGRESQL
        # SQLite lets writers wait by trying again and again; threads of one process wait in line instead
        self._turn: AbstractContextManager[None] = nullcontext() if self._server else Queue()
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
    def writing(self, *, lasting: bool = True) -> Iterator[Connection]:
        """One transaction, all or nothing, on disk when the block ends.

        What need not last survives a kill of this process all the same, but perhaps not a power cut; it is quicker.
        """
        with self._turn:
            with self._in_words(), self._engine.connect() as bare:
                connection = bare.execution_options(lasting=lasting)
                with connection.begin():
                    yield connection
                    failpoint("store.before_commit")
            failpoint("store.after_commit")

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """One consistent look that keeps no writer waiting."""
        with self._in_words(), self._engine.connect() as connection:
            yield connection.execution_options(reading=True)

    @contextmanager
    def _in_words(self) -> Iterator[None]:
        """Say what a full disk, a place that is read-only or a damaged file makes of a transaction."""
        try:
            yield
        except (IntegrityError, ProgrammingError):  # what the caller asked for, not where it lies
            raise
        except DataError as error:  # a text with a zero byte, which PostgreSQL cannot hold
            raise StudyError(f"{self.name} refuses a value ({_words(error)}): remove it from what you give.") from error
        except DatabaseError as error:
            raise StudyError(_unusable(self.name, self._server, error)) from error

    def run_alone(self, connection: Connection) -> None:
        """Wait until no other transaction that asked for this is under way; a writer of SQLite always is alone."""
        if self._server:
            connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": LOCK_NUMBER})

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold a server's database for one run alone, as long as this connection lasts; a second run is refused."""
        with self._engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            number = {"number": RUN_NUMBER}
            if not connection.execute(text("SELECT pg_try_advisory_lock(:number)"), number).scalar_one():
                raise StudyError(f"Another run is working on {self.name}: wait for it, or give another database.")
            try:
                yield
            finally:
                with suppress(DatabaseError):  # a server that is gone holds nothing
                    connection.execute(text("SELECT pg_advisory_unlock(:number)"), number)

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


def file_of(where: Path | str) -> Path | None:
    """The SQLite file that a database lies in; none for one that a server keeps."""
    if isinstance(where, Path):
        return where
    url = _url(where)
    return Path(url.database) if url is not None and url.drivername == "sqlite" and url.database else None


def _url(where: str) -> URL | None:
    try:
        return make_url(where)
    except (ArgumentError, ValueError):  # whose texts may hold a password
        return None


def _by_url(where: str) -> Engine:
    name, url = where.partition("://")[0], _url(where)
    if url is not None and name in SERVERS and "@" not in (url.host or ""):
        return _postgresql(url.set(drivername=f"{POSTGRESQL}+{DRIVER}"))
    received = f"'{name}://...'" if "://" in where else "A text without '://'"  # the rest may hold a password
    raise StudyError(
        f"{received} is not a database that we know: write sqlite:///FILE or postgresql://USER@HOST:PORT/DATABASE, "
        "and a password into PGPASSWORD or ~/.pgpass, or with %40 where it has an @."
    )


def _sqlite(file: Path) -> Engine:
    engine = create_engine(URL.create("sqlite", database=str(file)), pool_size=10, max_overflow=40)

    @event.listens_for(engine, "connect")
    def configure(connection: Any, record: object) -> None:
        """Survive a kill at any moment, and wait for another writer instead of failing."""
        connection.isolation_level = None  # transactions begin where we say, also around CREATE TABLE
        for pragma in ("journal_mode=WAL", "busy_timeout=10000", "foreign_keys=ON"):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        asked = connection.get_execution_options()
        connection.exec_driver_sql(f"PRAGMA synchronous={'FULL' if asked.get('lasting', True) else 'NORMAL'}")
        connection.exec_driver_sql("BEGIN" if asked.get("reading", False) else "BEGIN IMMEDIATE")

    return engine


def _postgresql(url: URL) -> Engine:
    with checks.from_extra("annotate", "PostgreSQL"):
        engine = create_engine(url, pool_size=10, max_overflow=40, pool_pre_ping=True)

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        """Wait for the disk where a transaction must last, whatever the server's own setting is."""
        lasting = connection.get_execution_options().get("lasting", True)
        connection.exec_driver_sql(f"SET LOCAL synchronous_commit = {'on' if lasting else 'off'}")

    return engine


def _unusable(name: str, server: bool, error: DatabaseError) -> str:
    if server:
        return f"{name} cannot be used ({_words(error)}): start the server, mend the URL, or set PGPASSWORD."
    return (
        f"{name} is not a usable database ({_words(error)}): see that its place can be written to and has room; if it "
        "is damaged, the command that made it mends it."
    )


def _words(error: DatabaseError) -> str:
    """What the database itself says, in one line."""
    return " ".join(str(error.orig).split())
