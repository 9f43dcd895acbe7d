"""Every reconstruction of a grid study on one page, beside its original, with what it can be chosen by."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from glasshouse.errors import PictureError
from glasshouse.reports.thumbnails import SMALL, beside, data_address, pixels_of
from glasshouse.reports.view import short
from glasshouse.store import Album
from glasshouse.studies.grid.lines import Line

MOST = 1_000  # reconstructions on one page
FACETS = ("dataset", "model", "recipe", "training_seed", "epoch", "defense", "attack", "batchnorm", "seen")
HEADS = {"dataset": "data", "training_seed": "seed", "batchnorm": "batch norm"}  # where a field has another name


@dataclass(frozen=True, slots=True)
class Exhibit:
    """One reconstruction: ``truth`` counts the originals, ``guess`` is a data address, ``file`` the whole picture.

    ``ratio`` is that of its sides; a picture that is lost is empty.
    """

    truth: int
    guess: str
    ratio: str
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


def gallery(directory: Path, album: Album, ordered: Sequence[Line], *, paired: bool = False) -> Gallery:
    """The gallery of reconstructions in the order given; where there are too many, of the first images alone.

    Where each recipe is ``paired`` with a defense, naming the defense says both.
    """
    shown = _first_images(ordered)
    choices = {name: tuple(sorted({_facet(line, name) for line in shown})) for name in FACETS}
    several = {
        name: values for name, values in choices.items() if len(values) > 1 and not (paired and name == "recipe")
    }
    truths = {file: place for place, file in enumerate(dict.fromkeys(line.truth for line in shown))}
    exhibits = []
    for line in shown:
        guess, ratio = _picture(album, line.guess)
        facets = tuple(_facet(line, name) for name in FACETS)
        file = beside(directory, album, line.guess)
        words = note(line, tuple(several))
        exhibits.append(Exhibit(truths[line.truth], guess, ratio, file, line.class_name, words, facets))
    originals = tuple(_picture(album, file)[0] for file in truths)
    return Gallery(originals, tuple(exhibits), several, len(ordered) - len(shown))


def _picture(album: Album, file: str) -> tuple[str, str]:
    """A thumbnail and the ratio of its sides; one that is lost must not cost the others."""
    try:
        pixels = pixels_of(album, file)
    except PictureError:
        return "", "1"
    return data_address(pixels, SMALL), f"{pixels.shape[1]} / {pixels.shape[0]}"


def note(line: Line, telling: Sequence[str] = FACETS) -> str:
    """What a reconstruction is of in words that tell it from others, what it scores, and what people said of it."""
    words = {
        "model": line.model,
        "recipe": f"trained with {line.recipe}" if line.epoch else "before training",
        "training_seed": f"seed {line.training_seed}",
        "epoch": f"{line.epoch} epochs" if line.epoch else "",
        "defense": f"behind {line.defense}",
        "attack": line.attack.partition(":")[0] + (" (tuned)" if line.tuned else ""),
        "batchnorm": "" if line.batchnorm == "none" else f"batch norm in {line.batchnorm} mode",
    }
    told = [text for name, text in words.items() if name in telling and text]
    values = {name: value for name, value in line.scores.items() if value is not None}
    scores = [f"{name} {short(value) if math.isfinite(value) else 'identical'}" for name, value in values.items()]
    people = [f"recognised by {line.votes_matching} of {line.votes} people"] if line.votes else []
    return f"{', '.join(told)}: {', '.join(scores + people)}"


def _first_images(ordered: Sequence[Line]) -> Sequence[Line]:
    """All that was made of so many images as there is room for, of each data set as many."""
    counts: dict[str, dict[int, int]] = {}
    for line in ordered:
        own = counts.setdefault(line.dataset, {})
        own[line.image] = own.get(line.image, 0) + 1
    queues = [sorted(own.items()) for own in counts.values()]
    shown: set[int] = set()
    room = MOST
    for image, count in (one for turn in itertools.zip_longest(*queues) for one in turn if one is not None):
        if count > room:
            break
        shown.add(image)
        room -= count
    # of one image alone there may be more than there is room for
    return [line for line in ordered if line.image in shown] if shown else ordered[:MOST]


def _facet(line: Line, name: str) -> str:
    return ("seen" if line.seen else "not seen") if name == "seen" else str(getattr(line, name))
