"""A vote that was answered as saved survives kill -9 of the server, at any moment, once and as it was given.

``make soak`` sets GLASSHOUSE_SOAK, which makes 200 kills of 10.
"""

from __future__ import annotations

import http.client
import json
import multiprocessing
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import pytest

from glasshouse.annotate.limits import Limits, Rate
from glasshouse.annotate.serve import Address, serve
from glasshouse.annotate.sessions import CSRF_HEADER, Cookies, csrf_token

KILLS = 200 if os.environ.get("GLASSHOUSE_SOAK") else 10
ANNOTATORS = 3
FAST = Limits(token=Rate(10_000, 10_000), address=Rate(10_000, 10_000))


class Annotator(threading.Thread):
    """Votes, and sometimes takes a vote back, as the page does: whatever is not answered is sent again."""

    def __init__(self, address: Address, study, number: int) -> None:
        super().__init__(daemon=True)
        self.dice = random.Random(number)
        self.connection = http.client.HTTPConnection(address.host, address.port, timeout=10)
        token = study.tokens[number]
        cookie = f"{Cookies(study.directory, secure=False).name('annotator')}={token}"
        self.headers = {"Cookie": cookie, CSRF_HEADER: csrf_token(token), "Content-Type": "application/json"}
        self.saved: dict[str, str] = {}
        self.sent = 0
        self.stop = threading.Event()

    def run(self) -> None:
        work = self.send("GET", "/api/work")
        while work["items"] and not self.stop.is_set():
            item = work["items"][0]
            answer = self.dice.choice(item["answers"])
            work = self.send("POST", "/api/votes", {"item": item["id"], "answer": answer})
            self.saved[item["id"]] = answer  # only now, when the server says so
            self.sent += 1
            if self.dice.random() < 0.1:
                work = self.send("POST", "/api/undo", {"done": work["done"]})
                del self.saved[item["id"]]

    def send(self, method: str, path: str, body: object = None) -> dict:
        while True:
            try:
                self.connection.request(method, path, json.dumps(body), self.headers)
                answer = self.connection.getresponse()
                content = answer.read()
            except (OSError, http.client.HTTPException):
                self.connection.close()
                time.sleep(0.01)
                continue
            assert answer.status == 200, content
            return json.loads(content)


@pytest.fixture(scope="module")
def forks():
    """Starts servers from a process that has imported everything already."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        [
            "__main__",
            "glasshouse.annotate.serve",
            "glasshouse.votes.tasks.classification",
            "uvicorn.protocols.http.auto",
        ]
    )
    return context


@pytest.fixture
def address() -> Address:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return Address(port=probe.getsockname()[1])


@contextmanager
def voting(study, address):
    """Annotators at work; when the block ends they finish what they sent."""
    people = [Annotator(address, study, number) for number in range(len(study.tokens))]
    for one in people:
        one.start()
    yield people
    for one in people:
        one.stop.set()
    for one in people:
        one.join(timeout=30)
        assert not one.is_alive()


def check_that_nothing_is_lost_or_doubled(study, people) -> int:
    given = {
        (person.id, item): answer
        for person, one in zip(study.people, people, strict=True)
        for item, answer in one.saved.items()
    }
    votes = study.votes.votes()
    assert len(votes) == len(given)
    assert {(vote.annotator, vote.item): vote.answer for vote in votes} == given
    return len(votes)


def wait_for_more(people, count: int) -> None:
    """Wait until so many more votes are saved, so that every kill hits a server at work, however slow the machine."""
    before = sum(one.sent for one in people)
    while sum(one.sent for one in people) < before + count:
        assert all(one.is_alive() for one in people)
        time.sleep(0.002)


@pytest.fixture
def start(forks, address):
    """Starts a server of a study."""

    def begin(study):
        server = forks.Process(target=serve, args=(study.directory, study.database, address, FAST), daemon=True)
        server.start()
        return server

    return begin


def test_votes_survive_kills_at_random_moments(make_study, database, start, address):
    study = make_study(database, annotators=ANNOTATORS, originals=20 * KILLS)
    dice = random.Random(5)
    with voting(study, address) as people:
        for _ in range(KILLS):
            server = start(study)
            wait_for_more(people, dice.randint(1, 6))
            time.sleep(dice.uniform(0, 0.02))
            server.kill()
            server.join()
        last = start(study)
    last.kill()
    last.join()
    assert check_that_nothing_is_lost_or_doubled(study, people) > KILLS


@pytest.mark.parametrize("place", ["store.before_commit", "store.after_commit"])
def test_votes_survive_a_kill_around_the_commit(make_study, start, address, place):
    study = make_study(annotators=2, originals=30)
    where = [str(study.directory), "--port", str(address.port)]
    command = [sys.executable, "-m", "glasshouse", "annotate", "serve", *where]
    with voting(study, address) as people:
        killed = subprocess.Popen(command, env={**os.environ, "GLASSHOUSE_FAILPOINT": f"{place}:12"})
        assert killed.wait(60) == -signal.SIGKILL
        last = start(study)
        wait_for_more(people, 4)
    last.kill()
    last.join()
    assert check_that_nothing_is_lost_or_doubled(study, people) > 4
