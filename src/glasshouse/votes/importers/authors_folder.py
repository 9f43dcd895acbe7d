"""The folder layout of the SemSim authors' training data, ``human_anno_id/train_with_ori``.

Folder N holds the recognisable and folder -N the unrecognisable reconstructions of original N, in files
``IDX_LABEL_rec_K_J.png`` (J the model's number, K how many of three votes were wrong) beside ``IDX_LABEL_ori.png``.
Who gave which of the three votes is not written, so the three voters stand for places, not for people.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from glasshouse.errors import DataError
from glasshouse.store import Item, Vote
from glasshouse.votes.bundle import Bundle, Voter, opaque
from glasshouse.votes.pictures import take_over

FORMAT = "a folder in the layout of the SemSim authors (N/, -N/, IDX_LABEL_rec_K_J.png, IDX_LABEL_ori.png)"

FOLDER = re.compile(r"-?\d+")
RECONSTRUCTION = re.compile(r"(?P<place>\d{1,9})_(?P<label>[^_]+)_rec_(?P<wrong>\d{1,9})_(?P<model>\d{1,9})\.png")
ORIGINAL = re.compile(r"(?P<place>\d{1,9})_(?P<label>[^_]+)_ori\.png")
VOTERS = 3
NESTED = "train_with_ori"


@dataclass(frozen=True, slots=True)
class _Found:
    place: int
    label: str
    path: Path
    model: int | None = None
    wrong: int = 0


def recognises(path: Path) -> bool:
    """Whether a folder holds numbered folders with an original or a reconstruction in one of them."""
    return path.is_dir() and next(_files(_home(path)), None) is not None


def read(path: Path, study: Path) -> Bundle:
    """Read the folder and copy its pictures into the study; spare negatives without votes are left."""
    found = {(one.place, one.model): one for one in _files(_home(path))}
    labels = tuple(sorted({one.label for one in found.values()}))
    originals = {one.place: opaque() for one in found.values()}
    items: list[Item] = []
    votes: list[Vote] = []
    for one in found.values():
        item = _item(one, originals[one.place], labels, study)
        items.append(item)
        if one.model is not None:
            votes += _votes(one, item)
    return Bundle(FORMAT, tuple(items), tuple(Voter(f"vote {n + 1} of {VOTERS}") for n in range(VOTERS)), tuple(votes))


def _home(path: Path) -> Path:
    return path / NESTED if (path / NESTED).is_dir() else path


def _files(home: Path) -> Iterator[_Found]:
    for folder in sorted(home.iterdir()):
        if not folder.is_dir() or not FOLDER.fullmatch(folder.name):
            continue
        for path in sorted(folder.iterdir()):
            if match := ORIGINAL.fullmatch(path.name):
                yield _Found(int(match["place"]), match["label"], path)
            elif match := RECONSTRUCTION.fullmatch(path.name):
                wrong = int(match["wrong"])
                if wrong > VOTERS:
                    raise DataError(f"{path} counts {wrong} wrong votes of {VOTERS}: rename it to what it was.")
                yield _Found(int(match["place"]), match["label"], path, int(match["model"]), wrong)


def _item(one: _Found, original: str, labels: tuple[str, ...], study: Path) -> Item:
    reconstructed = one.model is not None
    condition = f"model {one.model}" if reconstructed else "original"
    return Item(
        id=opaque(),
        task="classification",
        role="reconstruction" if reconstructed else "original",
        original=original,
        condition=condition,
        case_key=condition if reconstructed else "",
        place=one.place,
        image=take_over(one.path.parent, one.path.name, study),
        answers=labels,
        truth=one.label,
    )


def _votes(one: _Found, item: Item) -> Iterator[Vote]:
    """Three votes, of which as many as were wrong are "none": what they said instead is not written."""
    for voter in range(VOTERS):
        yield Vote(item.id, str(voter), None if voter < one.wrong else one.label)
