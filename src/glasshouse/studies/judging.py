"""Classifiers vote on the reconstructions of a study, as people would: a class that they name, and how surely."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from glasshouse import checks
from glasshouse.errors import StudyError
from glasshouse.files import sole_owner, write_atomic
from glasshouse.functional.threads import one_thread
from glasshouse.semsim.eyes import EYES, Way
from glasshouse.semsim.judges import voter_name
from glasshouse.store import Item, Location, Store, Vote, Votes
from glasshouse.studies.judgements import IMPORTED
from glasshouse.studies.panel import FOLDER, Originals, Seat, Skill, lessons_for, lineup_of, seated
from glasshouse.studies.pictures import read_picture
from glasshouse.studies.runner import RunProgress
from glasshouse.types import JSON
from glasshouse.votes.bundle import Voter, enrol
from glasshouse.votes.items import Questions, prepare

TASK = "classification"
SKILLS_FILE = "skills.json"  # in the folder of judges
CHUNK = 64
SCHEMA = 4  # the first two did not say the shape of images, nor what a judge learned from; the third no version
SEED = 0  # of judges unless another is asked for
MAKE = ("dataset", "shape", "eye", "version", "way")  # what judges of one make have in common


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
    seed: int = SEED,
    progress: RunProgress = lambda done, total: None,
) -> Cast:
    """Let each eye vote on all originals, reconstructions and degraded copies that it has not voted on yet.

    Names of judges depend on who came before, so the judges of a study sit one run at a time.
    """
    for eye in eyes:
        checks.one_of("eyes", eye, tuple(EYES))
    checks.whole("seed", seed, 0, checks.MOST_SEED)
    location = Location.of(directory)
    if not location.exists():
        raise StudyError(f"{directory} holds no study: run 'glasshouse audit --out {directory}' first.")
    with sole_owner(directory / FOLDER), closing(Votes(location.database)) as votes:
        prepare(directory, votes, Questions(task=TASK, degraded=degraded, seed=seed), root=root)
        with one_thread():
            return _judge(directory, votes, eyes, root, seed, progress)


def _judge(
    directory: Path, votes: Votes, eyes: Sequence[str], root: Path | None, seed: int, progress: RunProgress
) -> Cast:
    given = {(vote.item, vote.annotator) for vote in votes.votes("classifier")}
    sittings = []
    total = cast = looked = 0
    for originals, items in _groups(directory, votes.items()):
        # every eye has a lineup, and its probe votes in the same transaction
        lineups = {eye: _enrolled(directory, votes, lineup_of(eye, originals, seed), seed) for eye in eyes}
        undone = {eye: [item for item in items if (item.id, lineups[eye]) not in given] for eye in eyes}
        sittings.append((originals, undone))
        total += len(items) * len(eyes)
    found = total - sum(len(left) for _, undone in sittings for left in undone.values())
    progress(found, total)
    for originals, undone in sittings:
        if not any(undone.values()):
            continue
        lessons = lessons_for(originals, root, seed)
        for eye, left in undone.items():
            seats = seated(eye, originals, lessons, directory, seed) if left else []
            voters = {seat.skill.way: _enrolled(directory, votes, seat.skill, seed) for seat in seats}
            for seat in seats:
                _remember(directory, seat.skill, seed)
            for some in _chunks(left):
                cast += votes.record(_ballots(directory, seats, originals, some, voters))
                looked += len(some)
                progress(found + looked, total)
    return Cast(cast, found)


def _enrolled(directory: Path, votes: Votes, skill: Skill, seed: int) -> str:
    """The id of a judge among voters.

    The first of its make to judge a data set in this study, and whoever learned from the same, has the plain name;
    one that learned from other originals, training images or seeds is somebody else.
    """
    known = [one for one in skills(directory) if _of_one_make(one, skill)]
    learned = skill.learned if known and not _learned_alike(known[0], skill, seed) else None
    voter = Voter(voter_name(skill.eye, skill.way, learned), "classifier")
    return enrol(votes, [voter])[voter]


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
    voters: Mapping[Way, str],
) -> list[Vote]:
    """The votes of the judges behind one eye."""
    album = Location.of(directory).album
    places = {item.original: place for place, item in enumerate(originals.items)}
    owners = torch.tensor([places[item.original] for item in items])
    pictures = torch.stack([read_picture(album, str(item.image)) for item in items])
    seen = {seat.skill.way: EYES[seat.skill.eye](pictures, seat.skill.way) for seat in seats}
    now = time.time()
    return [
        Vote(item.id, voters[seat.skill.way], verdict.answer, when=now, grade=verdict.grade)
        for seat in seats
        for item, verdict in zip(items, seat.judge.look(seen[seat.skill.way], owners), strict=True)
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


def _remember(directory: Path, skill: Skill, seed: int) -> None:
    """Write down what a judge can do, where it stood before: whoever came first of its make stays first."""
    known = skills(directory)
    same = [_of_one_make(one, skill) and _learned_alike(one, skill, seed) for one in known]
    place = same.index(True) if any(same) else len(known)
    written = {"schema": SCHEMA, "judges": [*known[:place], asdict(skill), *known[place + 1 :]]}
    write_atomic(directory / FOLDER / SKILLS_FILE, json.dumps(written, indent=1, allow_nan=False).encode())


def _of_one_make(known: JSON, skill: Skill) -> bool:
    """Whether two judges are of one make; what was not written down in former times may be so."""
    return all(known.get(fact, getattr(skill, fact)) == getattr(skill, fact) for fact in MAKE)


def _learned_alike(known: JSON, skill: Skill, seed: int) -> bool:
    """Whether two judges of one make learned from the same.

    Before that was written down, there was one of each make, and nothing says its seed: it counts as the usual one.
    """
    return bool(known["learned"] == skill.learned) if "learned" in known else seed == SEED
