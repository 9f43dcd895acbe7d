"""Votes as CSV: what has no value is an empty cell; ``annotate import`` reads it back."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import astuple, fields

from glasshouse.votes.lines import Line


def to_csv(lines: Sequence[Line]) -> bytes:
    """The table in UTF-8, with a line of column names."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(field.name for field in fields(Line))
    writer.writerows(astuple(line) for line in lines)
    return text.getvalue().encode()
