"""The public votes of five people on reconstructed CIFAR-100 images: a row per image, a column per annotator.

Sun et al. 2023 published the idea; the reconstructions of this file are not public, so its items have no pictures.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np

from glasshouse.store import Item, Vote
from glasshouse.votes.bundle import Bundle, Voter, opaque
from glasshouse.votes.importers.own_csv import first_line
from glasshouse.votes.table import ANNOTATOR, MODEL, NO_VOTE, NONE, TRUTH, VoteTable, read_votes

FORMAT = "a CSV table of votes with columns config, gt_fine, annot1, annot2 and so on"

NAMES = "gt_name"


def recognises(path: Path) -> bool:
    """Whether a file begins with the columns of such a table."""
    names = first_line(path)
    return {MODEL, TRUTH} <= set(names) and any(ANNOTATOR.fullmatch(name) for name in names)


def read(path: Path, study: Path) -> Bundle:
    """Read the table; the answers of an original are those that somebody gave for it, and the truth."""
    table = read_votes(path)
    names = _class_names(table)
    answers = _answers(table, names)
    originals = {place: opaque() for place in answers}
    items = tuple(
        Item(
            id=opaque(),
            task="classification",
            role="reconstruction",
            original=originals[int(place)],
            condition=table.models[model],
            case_key=table.models[model],
            place=int(place),
            answers=answers[int(place)],
            truth=names[int(truth)],
        )
        for place, model, truth in zip(table.original, table.model, table.truth, strict=True)
    )
    voted = np.argwhere(table.votes != NO_VOTE)
    votes = tuple(
        Vote(
            item=items[row].id,
            annotator=str(column),
            answer=None if table.votes[row, column] == NONE else names[int(table.votes[row, column])],
        )
        for row, column in voted.tolist()
    )
    return Bundle(FORMAT, items, tuple(Voter(name) for name in table.annotators), votes)


def _class_names(table: VoteTable) -> dict[int, str]:
    """Names of classes where the table has them; a class that is nobody's truth keeps its number."""
    numbers = {int(number) for number in np.unique(table.votes)} | {int(number) for number in table.truth}
    names = {number: str(number) for number in numbers if number >= 0}
    if NAMES in table.cells:
        names |= {int(number): name for number, name in zip(table.truth, table.cells[NAMES], strict=True) if name}
    return names


def _answers(table: VoteTable, names: dict[int, str]) -> dict[int, tuple[str, ...]]:
    found: defaultdict[int, set[str]] = defaultdict(set)
    for place, truth, votes in zip(table.original.tolist(), table.truth.tolist(), table.votes.tolist(), strict=True):
        found[place] |= {names[vote] for vote in (truth, *votes) if vote >= 0}
    return {place: tuple(sorted(answers)) for place, answers in found.items()}
