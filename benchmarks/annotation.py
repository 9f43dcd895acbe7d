"""The annotation page: fifty people at once, and from an answer to the next picture on the screen."""

from __future__ import annotations

import http.client
import json
import random
import secrets
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

from clock import row
from PIL import Image
from skimage import data as photographs

from glasshouse.annotate.sessions import CSRF_HEADER, Cookies, csrf_token
from glasshouse.store import Item, Votes
from glasshouse.votes.invitations import invite

PEOPLE = 50
ANSWERS = 15  # of each person
PAUSE = 2.0  # seconds from picture to picture of somebody quick: look, choose among twenty, say how sure
VERSIONS = 10
ORIGINALS = 40
SERVE = """
import sys
from pathlib import Path
from glasshouse.annotate.limits import Limits, Rate
from glasshouse.annotate.serve import Address, serve
study, port = Path(sys.argv[1]), int(sys.argv[2])
fast = Rate(1e6, 10**6)  # fifty people behind one address are more than the limits allow
serve(study, study / "glasshouse.db", Address(port=port), limits=Limits(token=fast, address=fast))
"""


def run() -> list[dict[str, object]]:
    """Answer with fifty people, then with one in a browser."""
    with study() as (directory, votes, tokens), server(directory) as port:
        times = crowd(directory, tokens, port, PAUSE)
        most, twice = faults(votes)
    slow = percentile(times, 99)
    what = f"{PEOPLE} annotators at once, {PAUSE:.0f} s a picture: p99 of {len(times)} requests"
    rows = [row(what, f"{slow:.0f} ms", "200 ms", slow < 200)]
    with study() as (directory, votes, tokens), server(directory) as port:
        began = time.perf_counter()
        crowd(directory, tokens, port, 0.0)
        rate = PEOPLE * ANSWERS / (time.perf_counter() - began)
        most, twice = (max(one) for one in zip((most, twice), faults(votes), strict=True))
    what = f"{PEOPLE} annotators at once, no pause: answers saved a second"
    rows.append(row(what, f"{rate:.0f}", f"{PEOPLE}", rate > PEOPLE))
    what = "of both: most votes on one item; people who saw two versions of an original"
    rows.append(row(what, f"{most}; {twice}", "5; 0", most <= 5 and not twice))
    with study() as (directory, _, tokens), server(directory) as port:
        shown = in_browser(port, tokens[0])
    took = percentile(shown, 50)
    rows.append(row("from an answer to the next picture on the screen", f"{took:.0f} ms", "100 ms", took < 100))
    return rows


@contextmanager
def study():
    """A study of small photographs with everybody invited."""
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        Image.fromarray(photographs.astronaut()).resize((32, 32)).save(directory / "picture.png")
        votes = Votes(directory / "glasshouse.db")
        names = tuple(f"class {number}" for number in range(20))
        votes.add_items(
            Item(
                secrets.token_hex(16), "classification", "reconstruction", f"original {place}", f"model {version}",
                f"case {version}", place, names, names[0], "picture.png",
            )
            for place in range(ORIGINALS)
            for version in range(VERSIONS)
        )  # fmt: skip
        tokens = [one.token for one in invite(votes, [f"annotator {number}" for number in range(PEOPLE)])]
        yield directory, votes, tokens
        votes.close()


@contextmanager
def server(directory: Path):
    """The page of a study in a process of its own; its port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen([sys.executable, "-c", SERVE, str(directory), str(port)])
    with socket.socket() as probe:
        while probe.connect_ex(("127.0.0.1", port)):
            time.sleep(0.05)
    yield port
    process.terminate()
    process.wait()


def crowd(directory: Path, tokens: list[str], port: int, pause: float) -> list[float]:
    """Milliseconds of every request of people who answer at once, each after looking for a while."""
    times: list[float] = []

    def answer(number: int, token: str) -> None:
        dice = random.Random(number)
        connection = http.client.HTTPConnection("127.0.0.1", port)
        cookie = f"{Cookies(directory, secure=False).name('annotator')}={token}"
        headers = {"Cookie": cookie, CSRF_HEADER: csrf_token(token), "Content-Type": "application/json"}

        def send(method: str, path: str, body: object = None) -> bytes:
            began = time.perf_counter()
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            reply = connection.getresponse()
            content = reply.read()
            times.append(1000 * (time.perf_counter() - began))
            if reply.status != 200:
                raise RuntimeError(f"{path}: {reply.status} {content[:200]!r}")
            return content

        time.sleep(dice.uniform(0, pause))
        work = json.loads(send("GET", "/api/work"))
        for _ in range(ANSWERS):
            time.sleep(dice.uniform(0.5, 1.5) * pause)
            item = work["items"][0]
            vote = {"item": item["id"], "answer": item["answers"][0], "confidence": "likely", "milliseconds": 900}
            work = json.loads(send("POST", "/api/votes", vote))
            if work["items"]:
                send("GET", work["items"][-1]["pictures"][0]["address"])

    people = [threading.Thread(target=answer, args=one) for one in enumerate(tokens)]
    for one in people:
        one.start()
    for one in people:
        one.join()
    return times


def faults(votes: Votes) -> tuple[int, int]:
    """The most votes that an item got, and how often somebody saw two versions of an original."""
    given = votes.votes()
    items = {item.id: item for item in votes.items()}
    shown = Counter((vote.annotator, items[vote.item].original) for vote in given)
    return max(Counter(vote.item for vote in given).values()), sum(count > 1 for count in shown.values())


def in_browser(port: int, token: str) -> list[float]:
    """Milliseconds from a press of the mouse to the frame that shows the next picture."""
    from playwright.sync_api import sync_playwright

    watch = """() => new Promise((resolve) => {
        const before = document.querySelector("#stage img");
        const began = performance.now();
        const look = () => {
            const now = document.querySelector("#stage img");
            if (now && now !== before && now.complete) requestAnimationFrame(() => resolve(performance.now() - began));
            else requestAnimationFrame(look);
        };
        document.querySelector("#sure .last").click();
        look();
    })"""
    times = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(f"http://127.0.0.1:{port}/join/{token}")
        page.click("#begin")
        for _ in range(ANSWERS):
            page.wait_for_timeout(500)
            page.keyboard.press("1")
            times.append(page.evaluate(watch))
        browser.close()
    return times


def percentile(times: list[float], of: int) -> float:
    """The value under which so many percent of all lie."""
    return sorted(times)[min(len(times) - 1, len(times) * of // 100)]
