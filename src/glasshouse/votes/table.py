"""The one reader of tables of votes: a row per reconstruction, with the truth, a column per annotator, and metrics.

The format is that of the public CIFAR-100 votes of the SemSim paper: ``config`` names the model, columns that end in
``_index`` the original, ``gt_fine`` the true class, ``annot1``, ``annot2`` ... what each annotator answered (a class,
-1 for none of them, empty for no vote). Every other column is kept as text.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from glasshouse import checks
from glasshouse.errors import DataError
from glasshouse.functional.intervals import Array

MODEL = "config"
TRUTH = "gt_fine"
ANNOTATOR = re.compile(r"annot\d+")
ORIGINAL = re.compile(r".*_index")
NONE = -1  # "none of these"
NO_VOTE = -2  # was not asked, or did not answer
LARGEST_FILE = 200 * 2**20
LARGEST_CLASS = 2**31


@dataclass(frozen=True, slots=True, eq=False)
class VoteTable:
    """Votes on N reconstructions.

    ``model`` and ``original`` (N,) count in ``models`` and ``originals`` (without a column that names the original,
    each row is its own and ``originals`` is empty); ``truth`` (N,) are classes, ``votes`` (N, annotators) classes,
    ``NONE`` or ``NO_VOTE``; ``cells`` hold every column as it was written.
    """

    path: Path
    models: tuple[str, ...]
    model: Array
    originals: tuple[str, ...]
    original: Array
    truth: Array
    annotators: tuple[str, ...]
    votes: Array
    cells: Mapping[str, tuple[str, ...]]

    def numbers(self, column: str) -> Array:
        """A column as finite numbers (N,)."""
        return np.array([_number(self.path, place, column, cell) for place, cell in enumerate(self.cells[column])])


def read_votes(path: Path) -> VoteTable:
    """Read a CSV file of votes; anything that is not one is refused with the line and the column."""
    cells = read_columns(path)
    checks.printable(path, cells)
    for needed in (MODEL, TRUTH):
        if needed not in cells:
            raise DataError(f"{path} has no column '{needed}': its columns are {', '.join(cells)}.")
    checks.printable(path, cells[MODEL])
    annotators = tuple(name for name in cells if ANNOTATOR.fullmatch(name))
    if not annotators:
        raise DataError(f"{path} has no votes: give columns annot1, annot2 and so on.")
    named = [name for name in cells if ORIGINAL.fullmatch(name)]
    models, model = _numbered(cells[MODEL])
    rows = len(model)
    originals, original = _numbered([", ".join(cells[name][row] for name in named) for row in range(rows)])
    if named:
        _refuse_copies(path, models, model, originals, original)
    else:
        originals, original = (), np.arange(rows)
    return VoteTable(
        path=path,
        models=models,
        model=model,
        originals=originals,
        original=original,
        truth=np.array([_class(path, row, TRUTH, cell, least=0) for row, cell in enumerate(cells[TRUTH])]),
        annotators=annotators,
        votes=np.array(
            [[_vote(path, row, name, cell) for row, cell in enumerate(cells[name])] for name in annotators]
        ).T,
        cells=cells,
    )


def read_columns(path: Path) -> dict[str, tuple[str, ...]]:
    """The text of every column."""
    lines = _lines(path)
    header = next(lines, [])
    if not any(header):
        raise DataError(f"{path} is empty: give a CSV table with a line of column names.")
    twice = sorted({name for name in header if header.count(name) > 1})
    if twice:
        raise DataError(f"{path} has more than one column '{twice[0]}': give each its own name.")
    rows: list[list[str]] = []
    for row in lines:
        if len(row) != len(header):
            received = f"{len(row)} cells, but {len(header)} columns"
            raise DataError(f"{path}, row {len(rows) + 1}: {received}: write every line in full.")
        rows.append(row)
    if not rows:
        raise DataError(f"{path} has column names but no rows: add some votes.")
    return dict(zip(header, zip(*rows, strict=True), strict=True))


def _lines(path: Path) -> Iterator[list[str]]:
    """The lines of a CSV file that have any text, without spaces around cells."""
    try:
        size = path.stat().st_size
        if size > LARGEST_FILE:
            raise DataError(f"{path} has {size:,} bytes: at most {LARGEST_FILE:,} are read; split it.")
        with path.open(encoding="utf-8-sig", newline="") as file:
            for row in csv.reader(file, strict=True):
                if any(row):
                    yield [cell.strip() for cell in row]
    except OSError as error:
        raise DataError(f"Cannot read {path} ({error.strerror}): give a CSV file of votes.") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 (byte {error.start}): save it as CSV with UTF-8 encoding.") from error
    except csv.Error as error:
        raise DataError(
            f"{path} is not a CSV table ({error}): save it anew as CSV, cells divided by commas."
        ) from error


def _numbered(names: list[str] | tuple[str, ...]) -> tuple[tuple[str, ...], Array]:
    """Distinct names in the order in which they come, and the number of each."""
    known = {name: place for place, name in enumerate(dict.fromkeys(names))}
    return tuple(known), np.array([known[name] for name in names])


def _refuse_copies(
    path: Path, models: tuple[str, ...], model: Array, originals: tuple[str, ...], original: Array
) -> None:
    _, first, count = np.unique(model * len(originals) + original, return_index=True, return_counts=True)
    copied = first[count > 1]
    if len(copied):
        place = int(copied[0])
        raise DataError(
            f"{path}, row {place + 1}: model '{models[model[place]]}' has image {originals[original[place]]} more than "
            f"once ({len(copied)} images like it): keep one row of each."
        )


def _vote(path: Path, row: int, column: str, cell: str) -> int:
    if cell.lower() in ("", "nan"):
        return NO_VOTE
    return _class(path, row, column, cell, least=NONE)


def _class(path: Path, row: int, column: str, cell: str, least: int) -> int:
    """A class; written with decimals too, as other programs do to a column with gaps."""
    value = _number(path, row, column, cell)
    if not value.is_integer() or not least <= value < LARGEST_CLASS:
        none = f", {NONE} for none of them" if least == NONE else ""
        raise DataError(f"{path}, row {row + 1}: {column} is '{cell}': give a class as a whole number from 0{none}.")
    return int(value)


def _number(path: Path, row: int, column: str, cell: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise DataError(f"{path}, row {row + 1}: {column} is '{cell[:40]}': give a finite number in every row.")
    return value
