"""Every reconstruction of a grid study on one page, beside its original, with what it can be chosen by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from glasshouse.reports.thumbnails import SMALL, beside, inline
from glasshouse.reports.view import short
from glasshouse.store import Album
from glasshouse.studies.grid.lines import Line

MOST = 1_000  # reconstructions on one page
FACETS = ("dataset", "model", "recipe", "defense", "attack", "seen")


@dataclass(frozen=True, slots=True)
class Exhibit:
    """One reconstruction: ``truth`` counts the originals, ``guess`` is a data address, ``file`` the whole picture."""

    truth: int
    guess: str
    file: str
    title: str
    note: str
    facets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Gallery:
    """What hangs there: originals once each, reconstructions as they were given, and by what they can be chosen."""

    truths: tuple[str, ...]
    exhibits: tuple[Exhibit, ...]
    choices: dict[str, tuple[str, ...]]
    left_out: int


def gallery(directory: Path, album: Album, ordered: Sequence[Line]) -> Gallery:
    """The gallery of reconstructions in the order given; where there are too many, of the first images alone."""
    shown = _first_images(ordered)
    files = {line.truth: place for place, line in reversed(list(enumerate(shown)))}
    truths = {file: place for place, file in enumerate(sorted(files, key=lambda file: files[file]))}
    exhibits = tuple(
        Exhibit(
            truths[line.truth],
            inline(album, line.guess, SMALL),
            beside(directory, album, line.guess),
            line.class_name,
            note(line),
            tuple(_facet(line, name) for name in FACETS),
        )
        for line in shown
    )
    choices = {
        name: tuple(dict.fromkeys(sorted(one.facets[place] for one in exhibits))) for place, name in enumerate(FACETS)
    }
    several = {name: values for name, values in choices.items() if len(values) > 1}
    return Gallery(tuple(inline(album, file, SMALL) for file in truths), exhibits, several, len(ordered) - len(shown))


def note(line: Line) -> str:
    """What a reconstruction is of, what it scores, and what people said of it."""
    scores = [f"{name} {short(value)}" for name, value in line.scores.items() if value is not None]
    people = [f"recognised by {line.votes_matching} of {line.votes} people"] if line.votes else []
    behind = f"{line.model}, {line.recipe}, epoch {line.epoch}, behind {line.defense}, {line.attack}"
    return f"{behind}: {', '.join(scores + people)}"


def _first_images(ordered: Sequence[Line]) -> list[Line]:
    """All that was made of so many images as there is room for."""
    found: dict[int, int] = {}
    for line in ordered:
        found[line.image] = found.get(line.image, 0) + 1
    shown: set[int] = set()
    room = MOST
    for image in sorted(found):
        if found[image] > room:
            break
        shown.add(image)
        room -= found[image]
    return [line for line in ordered if line.image in shown]


def _facet(line: Line, name: str) -> str:
    value = getattr(line, name)
    return {True: "seen", False: "not seen"}[value] if isinstance(value, bool) else str(value)
