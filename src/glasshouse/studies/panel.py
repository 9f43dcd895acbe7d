"""The classifiers that judge one data set: a lineup of its originals, and a probe where its classes can be learned."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from glasshouse import data
from glasshouse.data import ImageSet, datasets
from glasshouse.data.crops import photo_crops, photographs_in
from glasshouse.errors import DataError, SettingError
from glasshouse.functional.intervals import share_interval
from glasshouse.semsim.eyes import EYES, Way
from glasshouse.semsim.judges import LINEUP, NOTHING, Lineup, Probe, train_probe
from glasshouse.store import Item
from glasshouse.studies.materials import unlike
from glasshouse.types import ImageSpec, Interval

FOLDER = "judges"  # of a study's directory
MOST_IMAGES = 1200  # a probe learns from no more
HELD_OUT = 5
FEWEST_PER_CLASS = 8
LIKELY = 0.5  # the chance above which a lineup's pick is named


@dataclass(frozen=True, slots=True, eq=False)
class Originals:
    """The originals of one data set in a study as they are asked about, all of one shape (M, C, H, W)."""

    dataset: str
    items: tuple[Item, ...]
    images: Tensor

    @property
    def classes(self) -> tuple[str, ...]:
        """Every class that may be named."""
        return tuple(sorted({name for item in self.items for name in item.answers}))

    def key(self, eye: str, seed: int) -> str:
        """The content hash of what a lineup of them learns from."""
        return _digest([EYES[eye].version, eye, seed, [item.truth for item in self.items]], self.images)


@dataclass(frozen=True, slots=True)
class Skill:
    """How an eye judges images of a shape, and the share of unseen clean images that a probe names rightly.

    ``learned`` is the content hash of what it learned from.
    """

    dataset: str
    shape: str
    eye: str
    version: int
    teaches: bool
    way: Way
    classes: int
    trained: int
    accuracy: Interval | None
    learned: str


@dataclass(frozen=True, slots=True)
class Seen:
    """What a judge makes of one guess: the class that it names, and how surely it sees the original."""

    answer: str | None
    grade: float


class Judge(Protocol):
    """Tells from what its eye sees of guesses, (N, D), of some originals, (N,) places among them."""

    def look(self, seen: Tensor, owners: Tensor) -> list[Seen]:
        """What it sees in each."""


@dataclass(frozen=True, slots=True)
class Seat:
    """A judge and what it can do."""

    judge: Judge
    skill: Skill


@dataclass(frozen=True, slots=True, eq=False)
class Naming:
    """Names the likeliest of an original's candidate classes, or none where it sees nothing.

    The grade is the chance that two looks, one at the guess and one at the original, name the same class.
    """

    probe: Probe
    classes: tuple[str | None, ...]
    candidates: Tensor
    truths: Tensor

    @classmethod
    def of(cls, probe: Probe, originals: Originals) -> Naming:
        """A judge of some originals; each has candidate classes of its own."""
        classes = [None if number == NOTHING else originals.classes[number] for number in probe.classes.tolist()]
        may_be = [[name is None or name in item.answers for name in classes] for item in originals.items]
        candidates = torch.tensor(may_be).float()
        shown = torch.tensor([name is not None for name in classes])
        truths = _among(probe.probabilities(EYES[probe.eye](originals.images, "probe")), candidates * shown)
        return cls(probe, tuple(classes), candidates, truths)

    def look(self, seen: Tensor, owners: Tensor) -> list[Seen]:
        """What it sees in each."""
        found = _among(self.probe.probabilities(seen), self.candidates[owners])
        grades = (found * self.truths[owners]).sum(1).clamp(0, 1)
        return [
            Seen(self.classes[place], grade)
            for place, grade in zip(found.argmax(1).tolist(), grades.tolist(), strict=True)
        ]


@dataclass(frozen=True, slots=True, eq=False)
class Comparing:
    """Picks the original out of a lineup with others, of other classes first, crops of photographs, and nothing.

    The grade is the chance that it picks the right one; the class is named where that is likelier than not, else none.
    """

    lineup: Lineup
    candidates: Tensor
    names: tuple[str | None, ...]

    @classmethod
    def of(cls, eye: str, originals: Originals, seed: int) -> Comparing:
        """A judge of some originals, the same strangers beside each of its guesses."""
        images, names = originals.images, tuple(item.truth for item in originals.items)
        count = len(images)
        crops = [] if count > LINEUP else [_crops(images)]
        everyone = torch.cat([images, *crops])
        candidates = []
        for own in range(count):
            turn = [(own + step) % count for step in range(1, count)]
            strangers = sorted(turn, key=lambda place, own=own: names[place] == names[own])  # type: ignore[misc]
            candidates.append([own, *strangers, *range(count, len(everyone))][: LINEUP + 1])
        return cls(Lineup.of(eye, everyone, seed), torch.tensor(candidates), names)

    def look(self, seen: Tensor, owners: Tensor) -> list[Seen]:
        """What it sees in each."""
        grades = self.lineup.chances(seen, self.candidates[owners])[:, 0].tolist()
        return [
            Seen(self.names[owner] if grade > LIKELY else None, grade)
            for owner, grade in zip(owners.tolist(), grades, strict=True)
        ]


def lineup_of(eye: str, originals: Originals, seed: int) -> Skill:
    """What a lineup of some originals can do; it takes no training to tell."""
    return Skill(
        dataset=originals.dataset,
        shape="x".join(map(str, originals.images.shape[1:])),
        eye=eye,
        version=EYES[eye].version,
        teaches=EYES[eye].teaches,
        way="lineup",
        classes=len(originals.classes),
        trained=0,
        accuracy=None,
        learned=originals.key(eye, seed),
    )


def seated(eye: str, originals: Originals, lessons: Lessons | None, directory: Path, seed: int) -> list[Seat]:
    """The judges of some originals behind an eye: a lineup, and a probe where lessons taught it enough.

    One who cannot name clean images would call every reconstruction unrecognisable.
    """
    lineup = lineup_of(eye, originals, seed)
    found = [Seat(Comparing.of(eye, originals, seed), lineup)]
    if lessons is not None:
        probe, accuracy = _probe(eye, lessons, directory, seed)
        if accuracy.mean >= (1 + 1 / len(lessons.classes)) / 2:  # by half of what chance leaves
            learned = lessons.key(eye, seed)
            skill = replace(lineup, way="probe", trained=len(lessons.taught), accuracy=accuracy, learned=learned)
            found.append(Seat(Naming.of(probe, originals), skill))
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Lessons:
    """Images of a data set that the study did not attack, with labels that count in ``classes``.

    Probes learn from those at the places ``taught``, and are asked about those at ``held``.
    """

    images: Tensor
    labels: Tensor
    classes: tuple[str, ...]
    taught: Tensor
    held: Tensor

    def key(self, eye: str, seed: int) -> str:
        """The content hash under which a probe is kept."""
        return _digest([EYES[eye].version, eye, seed, self.classes, self.labels.tolist()], self.images)


def lessons_for(originals: Originals, root: Path | None, seed: int) -> Lessons | None:
    """What probes can learn from; nothing where classes are individuals or breeds, or training images are missing."""
    name = originals.dataset.partition(":")[0]
    if name in datasets.names() and datasets.get(name).individuals:
        return None
    try:
        found = data.load(originals.dataset, root=root, split="train")
    except (DataError, SettingError):
        return None
    names = originals.classes
    images, labels = _unattacked(found, originals, seed)
    counts = torch.bincount(labels, minlength=len(names))
    if len(names) < 2 or int(counts.min()) < FEWEST_PER_CLASS:
        return None
    mixed = torch.randperm(len(images), generator=torch.Generator().manual_seed(seed))
    held = len(images) // HELD_OUT
    return Lessons(images, labels, names, mixed[held:], mixed[:held])


def _unattacked(found: ImageSet, originals: Originals, seed: int) -> tuple[Tensor, Tensor]:
    """Images of the classes at hand in the shape of the attacked ones, none of which is among them; and labels."""
    channels, height, width = originals.images.shape[1:]
    square = height if height == width and found.spec.shape[1:] != (height, width) else None
    fitted = found.fitted(square, channels)
    numbers = {name: number for number, name in enumerate(originals.classes)}
    known = [numbers.get(name) for name in found.class_names]
    places = [place for place in fitted.spread(len(fitted), seed) if known[fitted.labels[place]] is not None]
    if not places:
        return torch.zeros(0, channels, height, width), torch.zeros(0, dtype=torch.long)
    images, labels = fitted.batch(places[:MOST_IMAGES])
    new = torch.tensor(unlike(images, originals.images))
    ours = torch.tensor([-1 if number is None else number for number in known])
    return images[new], ours[labels[new]]


def _probe(eye: str, lessons: Lessons, directory: Path, seed: int) -> tuple[Probe, Interval]:
    """A probe, kept in the study's directory, and its accuracy on clean images."""
    file = directory / FOLDER / f"{lessons.key(eye, seed)}.safetensors"
    probe = Probe.load(eye, file)
    if probe is None:
        probe = train_probe(eye, lessons.images[lessons.taught], lessons.labels[lessons.taught], seed)
        probe.save(file)
    right = int((probe(lessons.images[lessons.held]) == lessons.labels[lessons.held]).sum())
    return probe, share_interval(right, len(lessons.held))


def _among(probabilities: Tensor, candidates: Tensor) -> Tensor:
    """Probabilities (N, classes) of those classes alone that are candidates, 1, and not 0."""
    kept = probabilities * candidates
    return kept / kept.sum(1, keepdim=True).clamp_min(1e-12)


def _crops(images: Tensor) -> Tensor:
    """Crops of photographs that are not attacked themselves; none where all are."""
    attacked = photographs_in(images)
    if attacked.issuperset(data.load("photos").ids):
        return images[:0]
    return photo_crops(ImageSpec(images.shape[1], images.shape[2], images.shape[3], 1), LINEUP, 0, without=attacked)


def _digest(facts: list[object], images: Tensor) -> str:
    """A content hash of facts and of images (N, C, H, W)."""
    pixels = (images * 255).round().to(torch.uint8).numpy().tobytes()
    return hashlib.sha256(json.dumps(facts).encode() + pixels).hexdigest()[:24]
