"""Classifiers vote on the reconstructions of a study, as people would: a class that they name, and how surely."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from glasshouse import checks
from glasshouse.errors import StudyError
from glasshouse.files import write_atomic
from glasshouse.functional.threads import one_thread
from glasshouse.semsim.eyes import EYES
from glasshouse.store import Item, Location, Store, Vote, Votes
from glasshouse.studies.panel import FOLDER, Judge, Originals, Skill, lessons_for, seat
from glasshouse.studies.pictures import read_picture
from glasshouse.studies.runner import RunProgress
from glasshouse.types import JSON
from glasshouse.votes.bundle import Voter, enrol
from glasshouse.votes.items import Questions, prepare

TASK = "classification"
IMPORTED = "imported"  # what the data set of votes from elsewhere is called
SKILLS_FILE = "skills.json"  # in the folder of judges
CHUNK = 64
SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Cast:
    """How many votes were cast now, and how many were there before."""

    now: int
    before: int


def judge(
    directory: Path,
    *,
    eyes: Sequence[str] = tuple(EYES),
    root: Path | None = None,
    seed: int = 0,
    progress: RunProgress = lambda done, total: None,
) -> Cast:
    """Let each eye vote on all originals and reconstructions that it has not voted on yet."""
    for eye in eyes:
        checks.one_of("eyes", eye, tuple(EYES))
    location = Location.of(directory)
    if not location.exists():
        raise StudyError(f"{directory} holds no study: run 'glasshouse audit --out {directory}' first.")
    votes = Votes(location.database)
    try:
        prepare(directory, votes, Questions(task=TASK), root=root)
        with one_thread():
            return _judge(directory, votes, eyes, root, seed, progress)
    finally:
        votes.close()


def _judge(
    directory: Path, votes: Votes, eyes: Sequence[str], root: Path | None, seed: int, progress: RunProgress
) -> Cast:
    known = enrol(votes, [Voter(eye, "classifier") for eye in eyes])
    voters = {eye: known[Voter(eye, "classifier")] for eye in eyes}
    given = {(vote.item, vote.annotator) for vote in votes.votes("classifier")}
    groups = list(_groups(directory, votes.items()))
    asked = [item for _, items in groups for item in items]
    found = sum((item.id, voter) in given for item in asked for voter in voters.values())
    total, cast = len(asked) * len(eyes), 0
    progress(found, total)
    for originals, items in groups:
        lessons = None
        for eye, voter in voters.items():
            left = [item for item in items if (item.id, voter) not in given]
            if not left:
                continue
            lessons = lessons or lessons_for(originals, root, seed)
            one, skill = seat(eye, originals, lessons, directory, seed)
            _remember(directory, skill)
            for ballots in _ballots(directory, one, originals, left, voter):
                cast += votes.record(ballots)
                progress(found + cast, total)
    return Cast(cast, found)


def _groups(directory: Path, items: Sequence[Item]) -> Iterator[tuple[Originals, list[Item]]]:
    """The originals of each data set and shape, and all that is asked about them."""
    album = Location.of(directory).album
    asked = [item for item in items if item.task == TASK and item.image is not None]
    datasets = _datasets(directory)
    by_kind: defaultdict[tuple[str, torch.Size], list[tuple[Item, torch.Tensor]]] = defaultdict(list)
    for item in asked:
        if item.role == "original":
            picture = read_picture(album, str(item.image))
            by_kind[datasets.get(item.place, IMPORTED), picture.shape].append((item, picture))
    for (dataset, _), found in by_kind.items():
        originals = Originals(dataset, tuple(item for item, _ in found), torch.stack([one for _, one in found]))
        known = {item.original for item in originals.items}
        yield originals, [item for item in asked if item.original in known]


def _datasets(directory: Path) -> dict[int, str]:
    """The data set of each attacked image, by its place."""
    store = Store(Location.of(directory).database)
    try:
        sources = {case.key: str(case.described["dataset"]) for case in store.cases()}
        return {one.place: sources[one.case_key] for one in store.reconstructions()}
    finally:
        store.close()


def _ballots(
    directory: Path, one: Judge, originals: Originals, items: Sequence[Item], voter: str
) -> Iterator[list[Vote]]:
    """The votes of one judge, a few at a time."""
    album = Location.of(directory).album
    places = {item.original: place for place, item in enumerate(originals.items)}
    for start in range(0, len(items), CHUNK):
        some = items[start : start + CHUNK]
        guesses = torch.stack([read_picture(album, str(item.image)) for item in some])
        seen = one.look(guesses, torch.tensor([places[item.original] for item in some]))
        now = time.time()
        yield [
            Vote(item.id, voter, verdict.answer, when=now, grade=verdict.grade)
            for item, verdict in zip(some, seen, strict=True)
        ]


def skills(directory: Path) -> list[JSON]:
    """What the judges of a study can do: a list of :class:`Skill` as plain JSON."""
    file = directory / FOLDER / SKILLS_FILE
    return list(json.loads(file.read_text(encoding="utf-8"))["judges"]) if file.is_file() else []


def _remember(directory: Path, skill: Skill) -> None:
    """Write down what a judge can do, in the place of what it could before."""
    others = [one for one in skills(directory) if (one["dataset"], one["eye"]) != (skill.dataset, skill.eye)]
    written = {"schema": SCHEMA, "judges": [*others, asdict(skill)]}
    write_atomic(directory / FOLDER / SKILLS_FILE, json.dumps(written, indent=1, allow_nan=False).encode())
