"""Classifiers vote on the reconstructions of a study, as people would: a class that they name, and how surely."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import get_args

import torch

from glasshouse import checks
from glasshouse.errors import StudyError
from glasshouse.files import write_atomic
from glasshouse.functional.threads import one_thread
from glasshouse.semsim.eyes import EYES
from glasshouse.semsim.judges import Way, voter_name
from glasshouse.store import Item, Location, Store, Vote, Votes
from glasshouse.studies.panel import FOLDER, Originals, Seat, Skill, lessons_for, seated
from glasshouse.studies.pictures import read_picture
from glasshouse.studies.runner import RunProgress
from glasshouse.types import JSON
from glasshouse.votes.bundle import Voter, enrol
from glasshouse.votes.items import Questions, prepare

TASK = "classification"
IMPORTED = "imported"  # what the data set of votes from elsewhere is called
SKILLS_FILE = "skills.json"  # in the folder of judges
CHUNK = 64
SCHEMA = 2


@dataclass(frozen=True, slots=True)
class Cast:
    """How many votes were cast now, and how many were there before."""

    now: int
    before: int


def judge(
    directory: Path,
    *,
    eyes: Sequence[str] = tuple(EYES),
    degraded: int = 0,
    root: Path | None = None,
    seed: int = 0,
    progress: RunProgress = lambda done, total: None,
) -> Cast:
    """Let each eye vote on all originals, reconstructions and degraded copies that it has not voted on yet."""
    for eye in eyes:
        checks.one_of("eyes", eye, tuple(EYES))
    location = Location.of(directory)
    if not location.exists():
        raise StudyError(f"{directory} holds no study: run 'glasshouse audit --out {directory}' first.")
    votes = Votes(location.database)
    try:
        prepare(directory, votes, Questions(task=TASK, degraded=degraded, seed=seed), root=root)
        with one_thread():
            return _judge(directory, votes, eyes, root, seed, progress)
    finally:
        votes.close()


def _judge(
    directory: Path, votes: Votes, eyes: Sequence[str], root: Path | None, seed: int, progress: RunProgress
) -> Cast:
    voters = _enrolled(votes, eyes)
    given = {(vote.item, vote.annotator) for vote in votes.votes("classifier")}
    groups = list(_groups(directory, votes.items()))
    asked = [item for _, items in groups for item in items]
    # every eye has a lineup, and its probe votes in the same transaction
    found = sum((item.id, voters[eye, "lineup"]) in given for item in asked for eye in eyes)
    total, cast, looked = len(asked) * len(eyes), 0, 0
    progress(found, total)
    for originals, items in groups:
        undone = {eye: [item for item in items if (item.id, voters[eye, "lineup"]) not in given] for eye in eyes}
        if not any(undone.values()):
            continue
        lessons = lessons_for(originals, root, seed)
        for eye, left in undone.items():
            seats = seated(eye, originals, lessons, directory, seed) if left else []
            for seat in seats:
                _remember(directory, seat.skill)
            for some in _chunks(left):
                cast += votes.record(_ballots(directory, seats, originals, some, voters))
                looked += len(some)
                progress(found + looked, total)
    return Cast(cast, found)


def _enrolled(votes: Votes, eyes: Sequence[str]) -> dict[tuple[str, Way], str]:
    """The ids of the judges of each eye, by the way they tell."""
    named = {(eye, way): Voter(voter_name(eye, way), "classifier") for eye in eyes for way in get_args(Way)}
    known = enrol(votes, list(named.values()))
    return {who: known[voter] for who, voter in named.items()}


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


def _chunks(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    return (items[start : start + CHUNK] for start in range(0, len(items), CHUNK))


def _ballots(
    directory: Path,
    seats: Sequence[Seat],
    originals: Originals,
    items: Sequence[Item],
    voters: Mapping[tuple[str, Way], str],
) -> list[Vote]:
    """The votes of the judges behind one eye, which looks at each picture once."""
    album = Location.of(directory).album
    places = {item.original: place for place, item in enumerate(originals.items)}
    owners = torch.tensor([places[item.original] for item in items])
    seen = EYES[seats[0].skill.eye](torch.stack([read_picture(album, str(item.image)) for item in items]))
    now = time.time()
    return [
        Vote(item.id, voters[seat.skill.eye, seat.skill.way], verdict.answer, when=now, grade=verdict.grade)
        for seat in seats
        for item, verdict in zip(items, seat.judge.look(seen, owners), strict=True)
    ]


def skills(directory: Path) -> list[JSON]:
    """What the judges of a study can do: a list of :class:`Skill` as plain JSON."""
    file = directory / FOLDER / SKILLS_FILE
    try:
        return [dict(one) for one in json.loads(file.read_text(encoding="utf-8"))["judges"]]
    except FileNotFoundError:
        return []
    except (ValueError, KeyError, TypeError) as error:
        raise StudyError(f"{file} is damaged ({error}): delete it, votes are kept elsewhere.") from error


def _remember(directory: Path, skill: Skill) -> None:
    """Write down what a judge can do, in the place of what it could before."""
    others = [one for one in skills(directory) if _of(one) != (skill.dataset, skill.eye, skill.way)]
    written = {"schema": SCHEMA, "judges": [*others, asdict(skill)]}
    write_atomic(directory / FOLDER / SKILLS_FILE, json.dumps(written, indent=1, allow_nan=False).encode())


def _of(skill: JSON) -> tuple[object, object, object]:
    """Whose skill it is."""
    return skill["dataset"], skill["eye"], skill["way"]
