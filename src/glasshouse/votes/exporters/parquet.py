"""Votes as Parquet, for those who read tables with pandas, polars or DuckDB."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import fields
from typing import get_args, get_type_hints

from glasshouse import checks
from glasshouse.votes.lines import Line


def to_parquet(lines: Sequence[Line]) -> bytes:
    """The table with typed columns; needs pyarrow."""
    with checks.from_extra("annotate", "Parquet"):
        import pyarrow
        from pyarrow import parquet
    types = {str: pyarrow.string(), int: pyarrow.int64(), float: pyarrow.float64(), bool: pyarrow.bool_()}
    hints = get_type_hints(Line)
    schema = pyarrow.schema([(field.name, types[_plain(hints[field.name])]) for field in fields(Line)])
    columns = [[getattr(line, field.name) for line in lines] for field in fields(Line)]
    buffer = io.BytesIO()
    parquet.write_table(pyarrow.table(columns, schema=schema), buffer)
    return buffer.getvalue()


def _plain(hint: type) -> type:
    """The type of a column whether or not it may be empty."""
    return next((one for one in get_args(hint) if one is not type(None)), hint)
