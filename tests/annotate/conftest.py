"""What the tests of the page share: studies, databases, and servers that start in no time."""

from __future__ import annotations

import multiprocessing
import secrets
import socket
from collections.abc import Callable, Iterator

import pytest
from tests.annotate.study import FAST, Plan, Study, fill
from tests.postgres import fresh_database, running_server

from glasshouse.annotate.serve import Address, serve
from glasshouse.store import Votes


@pytest.fixture(scope="session")
def postgresql() -> Iterator[str]:
    """A PostgreSQL server, started once where it is first needed."""
    with running_server() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request) -> Iterator[str | None]:
    """Where votes lie: None for the study's own SQLite file, else the URL of an empty database of the server."""
    if request.param == "sqlite":
        yield None
    else:
        with fresh_database(request.getfixturevalue("postgresql"), f"votes_{secrets.token_hex(4)}") as url:
            yield url


@pytest.fixture(scope="session")
def forks():
    """Starts processes from one that has imported everything already."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        [
            "__main__",
            "glasshouse.annotate.serve",
            "glasshouse.votes.tasks.classification",
            "glasshouse.votes.tasks.pair",
            "sqlalchemy.dialects.postgresql.psycopg",
            "uvicorn.lifespan.on",
            "uvicorn.protocols.http.auto",
            "uvicorn.protocols.websockets.auto",
        ]
    )
    return context


@pytest.fixture
def address() -> Address:
    """A free port of this machine."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return Address(port=probe.getsockname()[1])


@pytest.fixture
def start(forks, address):
    """Starts a server of a study; those that still run are killed when the test ends."""
    servers = []

    def begin(study: Study):
        arguments = (study.directory, study.database, address)
        server = forks.Process(target=serve, args=arguments, kwargs={"limits": FAST}, daemon=True)
        server.start()
        servers.append(server)
        return server

    yield begin
    for server in servers:
        server.kill()
        server.join()


@pytest.fixture
def make_study(tmp_path) -> Iterator[Callable[..., Study]]:
    """Makes studies in the test's own directory, and closes them."""
    opened: list[Votes] = []

    def make(database: str | None = None, **plan) -> Study:
        directory = tmp_path / f"study {len(opened)}"
        directory.mkdir()
        study = fill(directory, Plan(**plan), database)
        opened.append(study.votes)
        return study

    yield make
    for votes in opened:
        votes.close()
