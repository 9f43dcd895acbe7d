"""From a study's directory to what people are asked: reconstructions, originals, shuffled images, decoy pairs."""

from __future__ import annotations

import math
import random
import secrets
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from glasshouse import checks
from glasshouse.data.images import decode_image
from glasshouse.data.pixels import to_pixels, to_tensor
from glasshouse.defenses.csvar import CSVAR
from glasshouse.errors import StudyError
from glasshouse.registry import setting, to_spec
from glasshouse.semsim.degradations import degraded
from glasshouse.store import (
    DEGRADED,
    Album,
    CaseRecord,
    ImageRecord,
    Item,
    Location,
    ReconstructionRecord,
    Role,
    Store,
    Votes,
)
from glasshouse.votes.bundle import opaque
from glasshouse.votes.candidates import candidates, look
from glasshouse.votes.pictures import keep
from glasshouse.votes.tasks import Task, tasks

SHUFFLED = "csvar"
KEY_BYTES = 32

#: What is done to the pixels (H, W, C) of an original before it is shown.
Change = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True, kw_only=True)
class Questions:
    """What is asked about a study."""

    task: str = setting("classification", "SPEC of the task")
    shuffled: bool = setting(False, "ask about originals shuffled by CSVAR as well")
    degraded: int = setting(0, "ask about so many degraded copies of each original as well")
    decoys: float = setting(0.25, "decoy pairs for each true pair, where the task has decoys")
    candidates: int = setting(20, "most candidate classes, the truth among them")
    seed: int = setting(0, "seed of the decoys and of degraded copies")

    def __post_init__(self) -> None:
        checks.between("degraded", self.degraded, 0, 50)
        checks.between("decoys", self.decoys, 0, 1)
        checks.between("candidates", self.candidates, 2, 20)


@dataclass(frozen=True, slots=True)
class _Results:
    """What a study's directory holds, the data set of each image, and which originals the votes know already."""

    album: Album
    datasets: dict[int, str]
    images: dict[int, ImageRecord]
    conditions: dict[str, str]
    reconstructions: tuple[ReconstructionRecord, ...]
    originals: dict[int, str]


def prepare(study: Path, votes: Votes, asked: Questions, *, root: Path | None = None) -> int:
    """Add the items that a study can be asked about and that are not there yet; how many were added.

    A study that was imported has its items already.
    """
    task = tasks.create(asked.task)
    results = _results(study, votes)
    if results is None:
        if not votes.table().versions:
            raise StudyError(
                f"{study} has no pictures to ask about: import votes with pictures, "
                "or run an audit into a new directory (glasshouse audit --out DIR)."
            )
        return 0
    of_task = [item for item in votes.items() if item.task == to_spec(task)]
    answers = _answers(task, asked, results, {item.place: item.answers for item in of_task}, root)
    before = {(item.role, item.case_key, item.place) for item in of_task}
    drafts = [
        draft for draft in _drafts(task, asked, results) if (draft.role, draft.case_key, draft.place) not in before
    ]
    votes.add_items(draft.item(task, results, answers[draft.place]) for draft in drafts)
    return len(drafts)


@dataclass(frozen=True, slots=True)
class _Draft:
    """An item before it has answers: which version of which original, and the picture shown or how it is made."""

    role: Role
    case_key: str
    place: int
    picture: str | Change
    other: int | None = None

    def item(self, task: Task, results: _Results, answers: tuple[str, ...]) -> Item:
        original = results.images[self.place]
        return Item(
            id=opaque(),
            task=to_spec(task),
            role=self.role,
            original=results.originals[self.place],
            other=None if self.other is None else results.originals[self.other],
            condition=results.conditions.get(self.case_key, self.case_key or "original"),
            case_key=self.case_key,
            place=self.place,
            image=self.picture if isinstance(self.picture, str) else _changed(results, original, self.picture),
            beside=original.file if task.shows_original else None,
            answers=answers,
            truth=task.truth(self.role, original.class_name),
        )


def _results(study: Path, votes: Votes) -> _Results | None:
    """What a study found, or None where nothing was attacked in it."""
    location = Location.of(study)
    if not location.exists():
        return None
    store = Store(location.database)
    try:
        images = {image.place: image for image in store.images()}
        cases = store.cases()
        reconstructions = tuple(store.reconstructions())
    finally:
        store.close()
    if not reconstructions:
        return None
    conditions = {case.key: condition(case) for case in cases}
    sources = {case.key: str(case.described["dataset"]) for case in cases}
    datasets = {one.place: sources[one.case_key] for one in reconstructions}
    files = {image.file for image in images.values()}
    ours = (item for item in votes.items() if item.case_key in conditions or item.image in files)
    known = {item.place: item.original for item in ours}
    attacked = {place: image for place, image in images.items() if place in datasets}
    originals = {place: known.get(place) or opaque() for place in attacked}
    return _Results(location.album, datasets, attacked, conditions, reconstructions, originals)


def condition(case: CaseRecord) -> str:
    """What was attacked, how it was defended and how attacked; never shown to annotators."""
    facts = case.described
    return f"{facts['model']} / {facts['defense']} / {facts['attack']} / round {facts['round']} / {facts['batchnorm']}"


def _drafts(task: Task, asked: Questions, results: _Results) -> Iterator[_Draft]:
    if task.asks_originals:
        yield from (_Draft("original", "", place, image.file) for place, image in results.images.items())
    for one in results.reconstructions:
        yield _Draft("reconstruction", one.case_key, one.place, one.file)
    if asked.shuffled:
        yield from (_Draft("shuffled", SHUFFLED, place, _shuffled) for place in results.images)
    for number in range(asked.degraded):
        for place in results.images:
            yield _Draft("shuffled", f"{DEGRADED} {number}", place, _degrading(f"{asked.seed}/{number}/{place}"))
    if "decoy" in task.roles:
        yield from _decoys(asked, results)


def _decoys(asked: Questions, results: _Results) -> Iterator[_Draft]:
    """Originals beside what was made of another image under the same condition: of another class where there is one."""
    alike: defaultdict[tuple[str, str], list[ReconstructionRecord]] = defaultdict(list)
    for one in results.reconstructions:
        alike[results.conditions[one.case_key], results.datasets[one.place]].append(one)
    for (named, _), made in alike.items():
        chance = random.Random(f"{asked.seed}/{named}")
        for one in chance.sample(made, math.ceil(asked.decoys * len(made))):
            strangers = [two for two in made if two.place != one.place]
            name = results.images[one.place].class_name
            others = [two for two in strangers if results.images[two.place].class_name != name] or strangers
            if others:
                two = chance.choice(others)
                yield _Draft("decoy", one.case_key, one.place, two.file, two.place)


def _answers(
    task: Task, asked: Questions, results: _Results, fixed: dict[int, tuple[str, ...]], root: Path | None
) -> dict[int, tuple[str, ...]]:
    """The answers for each original, the same for all its versions: those that are fixed already, or new ones."""
    images = [image for place, image in results.images.items() if place not in fixed]
    if not images or not task.needs_candidates:
        return {image.place: task.answers(()) for image in images} | fixed
    found = dict(fixed)
    for dataset in dict.fromkeys(results.datasets[image.place] for image in images):
        some = [image for image in images if results.datasets[image.place] == dataset]
        pictures = [decode_image(results.album.read(image.file), image.file) for image in some]
        scored = look(pictures, [image.class_name for image in some], dataset, asked.candidates, root)
        for image, scores in zip(some, scored.scores, strict=True):
            found[image.place] = task.answers(candidates(image.class_name, scored.classes, scores, asked.candidates))
    return found


def _changed(results: _Results, original: ImageRecord, change: Change) -> str:
    """Keep what a change makes of an original."""
    return keep(results.album, change(decode_image(results.album.read(original.file), original.file)))


def _shuffled(pixels: np.ndarray) -> np.ndarray:
    """As CSVAR would share it, under a key that nobody has."""
    return CSVAR(key=secrets.token_bytes(KEY_BYTES))(pixels)


def _degrading(seed: str) -> Change:
    """Less of it, in ways and to a degree that the seed decides."""

    def change(pixels: np.ndarray) -> np.ndarray:
        rng = torch.Generator().manual_seed(random.Random(seed).getrandbits(63))
        return to_pixels(degraded(to_tensor(pixels)[None], 1.0, rng)[0])

    return change
