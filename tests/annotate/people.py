"""People who answer over the network as the page does, one thread each."""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.annotate.study import Study

from glasshouse.annotate.serve import Address
from glasshouse.annotate.sessions import CSRF_HEADER, Cookies, csrf_token


class Person(threading.Thread):
    """Votes, and sometimes takes a vote back, as the page does: whatever is not answered is sent again."""

    def __init__(self, address: Address, study: Study, number: int) -> None:
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


@contextmanager
def voting(study: Study, address: Address) -> Iterator[list[Person]]:
    """People at work; when the block ends they finish what they sent."""
    people = [Person(address, study, number) for number in range(len(study.tokens))]
    for one in people:
        one.start()
    yield people
    for one in people:
        one.stop.set()
    wait_for_all(people)


def wait_for_all(people: list[Person]) -> None:
    """Wait until everybody has stopped, or has nothing left to answer."""
    for one in people:
        one.join(timeout=60)
        assert not one.is_alive()
