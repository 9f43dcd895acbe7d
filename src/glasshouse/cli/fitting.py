"""Tables that fit the terminal: no word is cut, lines are folded where people would, columns are left out at last."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Sequence

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

#: Behind a space, and behind what parts a SPEC or a path.
FOLDS = re.compile(r"(?<= )|(?<=[:,/])(?! )")
BETWEEN = 3  # what a column takes beside its text: a blank on either side and a line


def fitted(
    title: str,
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    width: int,
    *,
    spare: Iterable[str] = (),
    dim: Container[int] = (),
) -> Table:
    """A table no wider than ``width`` in which no word is cut; ``spare`` columns are left out in turn where they must.

    Texts are no markup. ``dim`` are the numbers of rows that stand back.
    """
    columns = dict(zip(heads, zip(heads, *rows, strict=True), strict=True))
    left_out = []
    for head in dict.fromkeys(spare):
        if sum(map(_least, columns.values())) <= _room(columns, width):
            break
        left_out.append(head)
        del columns[head]
    missing = f"no room for {', '.join(left_out)} in {width} columns: widen the terminal, or set COLUMNS"
    table = Table(title=Text(title), caption=Text(missing) if left_out else None)
    folded = [[fold(text, most) for text in column] for column, most in _widths(columns, width)]
    for head, *_ in folded:
        table.add_column(Text(head), overflow="fold")
    for number, cells in enumerate(zip(*(cells for _, *cells in folded), strict=True)):
        table.add_row(*map(Text, cells), style="dim" if number in dim else None)
    return table


def fold(text: str, width: int) -> str:
    """A text in lines of at most so many cells, except for words that are longer."""
    lines = [""]
    for part in text.splitlines():
        for piece in FOLDS.split(part):
            if lines[-1] and cell_len((lines[-1] + piece).rstrip()) > width:
                lines.append("")
            lines[-1] += piece
        lines.append("")
    return "\n".join(line.rstrip() for line in lines[:-1])


def _room(columns: dict[str, tuple[str, ...]], width: int) -> int:
    """How many cells are left for texts."""
    return width - BETWEEN * len(columns) - 1


def _widths(columns: dict[str, tuple[str, ...]], width: int) -> Iterable[tuple[tuple[str, ...], int]]:
    """The columns with their widths: room goes first to those that lack least to be whole."""
    lack = {head: _most(column) - _least(column) for head, column in columns.items()}
    room = _room(columns, width) - sum(map(_least, columns.values()))
    given = {}
    for head in sorted(lack, key=lambda one: lack[one]):
        given[head] = max(0, min(lack[head], room))
        room -= given[head]
    return ((column, _least(column) + given[head]) for head, column in columns.items())


def _least(column: Iterable[str]) -> int:
    """The width below which a word would be cut."""
    pieces = (piece for text in column for line in text.splitlines() for piece in FOLDS.split(line))
    return max((cell_len(piece.rstrip()) for piece in pieces), default=0)


def _most(column: Iterable[str]) -> int:
    """The width at which no line is folded."""
    return max((cell_len(line) for text in column for line in text.splitlines()), default=0)
