"""The galleries of an audit's page: every image beside what became of it behind each defense."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from glasshouse.reports.thumbnails import LARGE, SMALL, Room, beside, inline
from glasshouse.reports.view import columns, condition, setup_of, short
from glasshouse.store import Album
from glasshouse.types import JSON
from glasshouse.votes.judgement import Judgement

FIRST = 24  # images that a gallery opens with, at most
LARGE_PICTURES = 100  # in all galleries of a page, about
PICTURES = 2_000  # in all of them: a thousand images and what one attack made of them


@dataclass(frozen=True, slots=True)
class Picture:
    """One reconstruction in the gallery."""

    source: str
    file: str
    scores: tuple[str, ...]
    seen: bool


@dataclass(frozen=True, slots=True)
class Strip:
    """One attacked image and all its reconstructions."""

    truth: str
    name: str
    pictures: tuple[Picture, ...]


@dataclass(frozen=True, slots=True)
class Wall:
    """A gallery of one condition: a column for each defense and attack, a strip for each image.

    It opens with ``strips``; ``more`` are smaller pictures, and so many images as ``left_out`` have none.
    """

    title: str
    heads: tuple[tuple[str, str], ...]
    strips: tuple[Strip, ...]
    more: tuple[Strip, ...]
    left_out: int


def walls(results: JSON, directory: Path, album: Album, people: Mapping[str, Judgement]) -> tuple[Wall, ...]:
    """Galleries of truth against reconstructions, one for each round and batch-norm mode."""
    hall = _Hall.of(results, directory, album, people)
    across = max(1, sum(1 + len(heads) for heads in hall.conditions.values()))
    opening = max(1, min(FIRST, LARGE_PICTURES // across))
    shown = max(opening, PICTURES // across)
    places = sorted(hall.truths)
    galleries = []
    for (training, batchnorm), heads in hall.conditions.items():
        first = tuple(hall.strip(place, heads, LARGE) for place in places[:opening])
        more = tuple(hall.strip(place, heads, SMALL) for place in places[opening:shown])
        left = len(places) - len(first) - len(more)
        galleries.append(Wall(condition(training, batchnorm), tuple(heads), first, more, left))
    return tuple(galleries)


#: What was done to each image by its place, under the defense and attack that it was done by.
Heads = dict[tuple[str, str], dict[int, JSON]]


@dataclass(frozen=True, slots=True, eq=False)
class _Hall:
    """What all galleries of a page are hung from."""

    directory: Path
    album: Album
    conditions: dict[tuple[str, str], Heads]
    truths: dict[int, str]
    names: dict[int, str]
    scores: dict[tuple[tuple[str, ...], int], list[str]]
    seen: dict[tuple[str, ...], set[int]]

    @classmethod
    def of(cls, results: JSON, directory: Path, album: Album, people: Mapping[str, Judgement]) -> _Hall:
        conditions: dict[tuple[str, str], Heads] = {}
        scores: dict[tuple[tuple[str, ...], int], list[str]] = {}
        votes: dict[tuple[tuple[str, ...], int], list[str]] = {}
        labels = {column.metric: column.label for column in columns(results)}
        for one in results["per_image"]:
            name = setup_of(one)
            conditions.setdefault((name[3], name[4]), {}).setdefault((name[0], name[1]), {})[one["image"]] = one
            value = "identical" if one["value"] is None else short(one["value"])
            scores.setdefault((name, one["image"]), []).append(f"{labels[one['metric']]} {value}")
            if one["guess"] in people:
                votes[name, one["image"]] = [_told_by(people[one["guess"]])]
        return cls(
            directory,
            album,
            conditions,
            {image["place"]: image["file"] for image in results["images"]},
            {image["place"]: f"{image['class_name']} ({image['identity']})" for image in results["images"]},
            {name: own + votes.get(name, []) for name, own in scores.items()},
            {setup_of(one): set(one["which"]) for one in results["identified"]},
        )

    def strip(self, place: int, heads: Heads, room: Room) -> Strip:
        """One image and what was made of it, in pictures that take so much room."""
        pictures = tuple(self._picture(place, found.get(place), room) for found in heads.values())
        return Strip(inline(self.album, self.truths[place], room), self.names[place], pictures)

    def _picture(self, place: int, one: JSON | None, room: Room) -> Picture:
        if one is None:
            return Picture("", "", ("not finished",), False)
        name = setup_of(one)
        return Picture(
            inline(self.album, one["guess"], room),
            beside(self.directory, self.album, one["guess"]),
            tuple(self.scores[name, place]),
            place in self.seen.get(name, ()),
        )


def _told_by(judgement: Judgement) -> str:
    """How many people recognised a reconstruction."""
    return f"recognised by {judgement.matching} of {judgement.votes} people"
