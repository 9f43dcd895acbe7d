"""A small study with votes to collect: photographs, and coarser versions of them in the place of reconstructions."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from PIL import Image
from skimage import data as photographs

from glasshouse.annotate.desk import hash_token
from glasshouse.store import Annotator, Item, Rules, Votes

PHOTOGRAPHS = {"astronaut": "astronaut", "cat": "chelsea", "coffee": "coffee", "rocket": "rocket"}
OTHERS = ("bird", "boat", "bridge", "car", "clock", "dog", "flower", "horse", "house", "lamp", "moon", "phone")
MORE = ("shoe", "sofa", "train", "tree")
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
    """A study directory, its votes, and the tokens of those who were invited."""

    directory: Path
    votes: Votes
    owner: str
    tokens: tuple[str, ...]
    people: tuple[Annotator, ...] = field(repr=False)


def make_study(directory: Path, plan: Plan | None = None, database: str | None = None) -> Study:
    """Write pictures, items and annotators."""
    plan = plan or Plan()
    votes = Votes(database or directory / "glasshouse.db")
    votes.set_rules(Rules(votes_per_item=plan.votes_per_item))
    votes.add_items(items(directory, plan))
    tokens = tuple(secrets.token_urlsafe(32) for _ in range(plan.annotators))
    people = tuple(votes.invite(f"annotator {number + 1}", hash_token(token)) for number, token in enumerate(tokens))
    owner = secrets.token_urlsafe(32)
    votes.set_owner_hash(hash_token(owner))
    return Study(directory, votes, owner, tokens, people)


def items(directory: Path, plan: Plan) -> list[Item]:
    """One item for each version of each original."""
    (directory / "images").mkdir(parents=True, exist_ok=True)
    names = list(PHOTOGRAPHS)
    made = []
    for place in range(plan.originals):
        truth = names[place % len(names)]
        photograph = square(getattr(photographs, PHOTOGRAPHS[truth])())
        beside = write(directory, photograph, SIDE) if plan.task == "pair" else None
        for version in range(plan.versions):
            made.append(
                Item(
                    id=secrets.token_hex(16),
                    task=plan.task,
                    role="reconstruction",
                    original=f"original {place}",
                    condition=f"condition {version}",
                    case_key=f"case {version}",
                    place=place,
                    answers=("same", "different") if beside else tuple(sorted((*names, *OTHERS, *MORE))),
                    truth="same" if beside else truth,
                    image=write(directory, photograph, SIDE // 4 * (1 + version % 3)),
                    beside=beside,
                )
            )
    return made


def square(photograph: np.ndarray) -> Image.Image:
    """The middle of a photograph."""
    side = min(photograph.shape[:2])
    top, left = ((size - side) // 2 for size in photograph.shape[:2])
    return Image.fromarray(photograph[top : top + side, left : left + side])


def write(directory: Path, picture: Image.Image, detail: int) -> str:
    """A photograph of SIDE pixels with so many pixels' detail, under a name that says nothing."""
    name = f"images/{secrets.token_hex(8)}.png"
    coarse = picture.resize((detail, detail), Image.Resampling.BOX)
    coarse.resize((SIDE, SIDE), Image.Resampling.BICUBIC).save(directory / name)
    return name
