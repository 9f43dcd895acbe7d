"""A small study with votes to collect: photographs, and coarser versions of them in the place of reconstructions."""

from __future__ import annotations

import io
import secrets
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from fastapi.testclient import TestClient
from PIL import Image
from skimage import data as photographs

from glasshouse.annotate.app import create_app
from glasshouse.annotate.limits import Limits, Rate
from glasshouse.annotate.sessions import CSRF_HEADER, csrf_token
from glasshouse.store import Annotator, Item, Rules, Votes
from glasshouse.votes.invitations import hash_of
from glasshouse.votes.tasks import tasks

FAST = Limits(token=Rate(1e6, 10**6), address=Rate(1e6, 10**6))

PHOTOGRAPHS = {"astronaut": "astronaut", "cat": "chelsea", "coffee": "coffee", "rocket": "rocket"}
OTHERS = ("bird", "boat", "bridge", "car", "clock", "dog", "flower", "horse", "house", "lamp", "moon", "phone", "shoe")
MORE = ("sofa", "train", "tree")
SIDE = 64


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What the study asks of how many people."""

    task: str = "classification"
    annotators: int = 2
    originals: int = 4
    versions: int = 1
    votes_per_item: int = 5


@dataclass(frozen=True)
class Study:
    """A study directory, where its votes are, and the tokens of those who were invited."""

    directory: Path
    database: Path | str
    votes: Votes
    owner: str
    tokens: tuple[str, ...]
    people: tuple[Annotator, ...] = field(repr=False)

    def client(self, token: str | None = None, **settings) -> TestClient:
        """A browser without pages, in the application itself; with a token it has joined."""
        client = TestClient(create_app(self.votes, self.directory, **settings), base_url="http://127.0.0.1:8000")
        if token:
            assert client.get(f"/join/{token}").status_code == 200
            client.headers[CSRF_HEADER] = csrf_token(token)
        return client


def fill(directory: Path, plan: Plan, database: str | None = None) -> Study:
    """Write pictures, items and annotators."""
    where = database or directory / "glasshouse.db"
    votes = Votes(where)
    votes.set_rules(Rules(votes_per_item=plan.votes_per_item))
    votes.add_items(items(directory, plan))
    tokens = tuple(secrets.token_urlsafe(32) for _ in range(plan.annotators))
    people = tuple(votes.invite(f"annotator {number + 1}", hash_of(token)) for number, token in enumerate(tokens))
    owner = secrets.token_urlsafe(32)
    votes.set_owner_hash(hash_of(owner))
    return Study(directory, where, votes, owner, tokens, people)


def items(directory: Path, plan: Plan) -> list[Item]:
    """One item for each version of each original."""
    (directory / "images").mkdir(parents=True, exist_ok=True)
    names = list(PHOTOGRAPHS)
    pictures = {
        (name, detail): write(directory, name, detail) for name in names for detail in (SIDE, SIDE // 2, SIDE // 4)
    }
    task = tasks.create(plan.task)
    answers = task.answers(sorted((*names, *OTHERS, *MORE)))
    return [
        Item(
            id=secrets.token_hex(16),
            task=plan.task,
            role="reconstruction",
            original=f"original {place}",
            condition=f"condition {version}",
            case_key=f"case {version}",
            place=place,
            answers=answers,
            truth=task.truth("reconstruction", names[place % len(names)]),
            image=pictures[names[place % len(names)], SIDE // 2 // (1 + version % 2)],
            beside=pictures[names[place % len(names)], SIDE] if task.shows_original else None,
        )
        for place in range(plan.originals)
        for version in range(plan.versions)
    ]


def write(directory: Path, name: str, detail: int) -> str:
    """Write a picture under a name that says nothing."""
    file = f"images/{secrets.token_hex(8)}.png"
    (directory / file).write_bytes(picture(name, detail))
    return file


@cache
def picture(name: str, detail: int) -> bytes:
    """The middle of a photograph as PNG, of SIDE pixels with so many pixels' detail."""
    photograph = getattr(photographs, PHOTOGRAPHS[name])()
    side = min(photograph.shape[:2])
    top, left = ((size - side) // 2 for size in photograph.shape[:2])
    square = Image.fromarray(photograph[top : top + side, left : left + side])
    coarse = square.resize((detail, detail), Image.Resampling.BOX)
    written = io.BytesIO()
    coarse.resize((SIDE, SIDE), Image.Resampling.BICUBIC).save(written, "PNG")
    return written.getvalue()
