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
AT_TRAINING = ",at=training"  # how a recipe writes a defense of gradients
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
    choices = {name: tuple(sorted({_facet(line, name) for line in shown})) for name in FACETS}
    several = {name: values for name, values in choices.items() if len(values) > 1}
    truths = {file: place for place, file in enumerate(dict.fromkeys(line.truth for line in shown))}
    exhibits = tuple(
        Exhibit(
            truths[line.truth],
            inline(album, line.guess, SMALL),
            beside(directory, album, line.guess),
            line.class_name,
            note(line, tuple(several)),
            tuple(_facet(line, name) for name in FACETS),
        )
        for line in shown
    )
    return Gallery(tuple(inline(album, file, SMALL) for file in truths), exhibits, several, len(ordered) - len(shown))


def note(line: Line, telling: Sequence[str] = FACETS) -> str:
    """What a reconstruction is of in words that tell it from others, what it scores, and what people said of it."""
    words = {
        "model": line.model,
        "recipe": f"trained with {line.recipe}, {line.epoch} epochs" if line.epoch else "before training",
        "defense": f"behind {line.defense}",
        "attack": line.attack.partition(":")[0] + (" (tuned)" if line.tuned else ""),
    }
    if line.recipe.removesuffix(AT_TRAINING) == line.defense:
        words["recipe"] = f"{line.epoch} epochs"
    scores = [f"{name} {short(value)}" for name, value in line.scores.items() if value is not None]
    people = [f"recognised by {line.votes_matching} of {line.votes} people"] if line.votes else []
    return f"{', '.join(words[name] for name in words if name in telling)}: {', '.join(scores + people)}"


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
