"""The lines of a study as a file: CSV, or Parquet with typed columns."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, get_args, get_type_hints

from glasshouse import checks
from glasshouse.errors import SettingError
from glasshouse.files import write_atomic

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

#: How what spreadsheets take for a formula begins, in plain and in full-width signs.
FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20", "\t", "\r")
SCORES = "scores"  # the field that becomes a column for each metric


#: Lines of a table: dataclasses of one kind, which is given beside them because there may be none.
Lines = Sequence["DataclassInstance"]
Kind = type["DataclassInstance"]


def export(lines: Lines, kind: Kind, file: Path) -> None:
    """Write the table to a file whose suffix says how."""
    suffix = file.suffix.lower()
    if suffix not in EXPORTERS:
        raise SettingError(f"{file} ends in '{suffix}': choose a name that ends in {' or '.join(EXPORTERS)}.")
    write_atomic(file, EXPORTERS[suffix](lines, kind))


def to_csv(lines: Lines, kind: Kind) -> bytes:
    """The table in UTF-8, with a line of column names; what has no value is an empty cell."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns(lines, kind))
    writer.writerows(map(_no_formula, values(line)) for line in lines)
    return text.getvalue().encode()


def _no_formula(value: object) -> object:
    """A text that a spreadsheet would run, since names come from files of others, with an apostrophe before it."""
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value


def to_parquet(lines: Lines, kind: Kind) -> bytes:
    """The table with typed columns; needs pyarrow."""
    with checks.from_extra("annotate", "Parquet"):
        import pyarrow
        from pyarrow import parquet
    types = {str: pyarrow.string(), int: pyarrow.int64(), float: pyarrow.float64(), bool: pyarrow.bool_()}
    schema = pyarrow.schema([(name, types[plain]) for name, plain in columns(lines, kind).items()])
    rows = [values(line) for line in lines]
    table = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in schema]
    buffer = io.BytesIO()
    parquet.write_table(pyarrow.table(table, schema=schema), buffer)
    return buffer.getvalue()


EXPORTERS: dict[str, Callable[[Lines, Kind], bytes]] = {".csv": to_csv, ".parquet": to_parquet}


def columns(lines: Lines, kind: Kind) -> dict[str, type]:
    """The names of the columns and their types, the metrics last."""
    hints = get_type_hints(kind)
    plain = {field.name: _plain(hints[field.name]) for field in fields(kind) if field.name != SCORES}
    return plain | dict.fromkeys((metric for line in lines[:1] for metric in getattr(line, SCORES, ())), float)


def values(line: DataclassInstance) -> list[object]:
    """The cells of a line in the order of the columns."""
    plain = [getattr(line, field.name) for field in fields(line) if field.name != SCORES]
    return [*plain, *getattr(line, SCORES, {}).values()]


def _plain(hint: type) -> type:
    """The type of a column whether or not it may be empty."""
    return next((one for one in get_args(hint) if one is not type(None)), hint)
