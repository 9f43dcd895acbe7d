"""What the tests of the page share: studies, databases, and servers that start in no time."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator

import pytest
from tests.annotate.study import Plan, Study, fill

from glasshouse.annotate.serve import Address
from glasshouse.store import Votes

#: Serves a study, without limits on how often one may ask; a text, so that it can be sent as it is.
SERVE = """
import os
os.environ.update(environment)
from glasshouse.annotate.limits import Limits, Rate
from glasshouse.annotate.serve import serve
often = Rate(1e6, 10**6)
serve(study, database, address, limits=Limits(token=often, address=often))
"""


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

    def begin(study: Study, **environment: str):
        given = {"environment": environment, "study": study.directory, "database": study.database, "address": address}
        server = forks.Process(target=exec, args=(SERVE, given), daemon=True)
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
