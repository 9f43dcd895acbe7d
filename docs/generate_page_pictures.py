"""Draw docs/pictures/annotate.png and annotate_phone.png: the annotation page over a study, in a real browser.

python docs/generate_page_pictures.py STUDY, after ``make audit`` for example; needs Chromium and playwright.
"""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from glasshouse.store import DATABASE_FILE, Votes
from glasshouse.votes.invitations import invite
from glasshouse.votes.items import Questions, prepare

PICTURES = Path(__file__).parent / "pictures"
PHONE = {"viewport": {"width": 390, "height": 844}, "device_scale_factor": 1.5, "is_mobile": True, "has_touch": True}


@contextmanager
def served(study: Path, task: str) -> Iterator[str]:
    """A copy of a study behind the page; the link of somebody who was invited."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "study"
        shutil.copytree(study, copy)
        votes = Votes(copy / DATABASE_FILE)
        prepare(copy, votes, Questions(task=task))
        (invited,) = invite(votes, ["somebody"])
        votes.close()
        command = [sys.executable, "-m", "glasshouse", "annotate", "serve", str(copy), "--port", "0"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            yield f"{re.search(r'http://[^ ]+[0-9]', server.stdout.readline())[0]}/join/{invited.token}"
        finally:
            server.terminate()
            server.wait()


def opened(browser: Browser, link: str, **device: object) -> Page:
    """The page behind a link, past the guide."""
    page = browser.new_context(**device).new_page()
    page.goto(link)
    page.click("#begin")
    page.wait_for_selector("#answers button")
    page.wait_for_timeout(300)
    return page


def main(study: Path) -> None:
    """One picture of a desk, one of two phones."""
    with sync_playwright() as playwright, served(study, "classification") as classes, served(study, "pair") as pairs:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        opened(browser, classes, viewport={"width": 1180, "height": 760}).screenshot(path=PICTURES / "annotate.png")
        shots = [
            opened(browser, classes, **PHONE).screenshot(),
            opened(browser, pairs, color_scheme="dark", **PHONE).screenshot(),
        ]
        browser.close()
    phones = [Image.open(io.BytesIO(shot)) for shot in shots]
    gap = 40
    both = Image.new("RGB", (sum(one.width for one in phones) + gap, phones[0].height), "white")
    both.paste(phones[0], (0, 0))
    both.paste(phones[1], (phones[0].width + gap, 0))
    both.save(PICTURES / "annotate_phone.png", optimize=True)


main(Path(sys.argv[1] if len(sys.argv) > 1 else "audit"))
