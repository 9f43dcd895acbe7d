"""Exporters: the table of votes as a file; one module for each suffix."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from glasshouse.errors import SettingError
from glasshouse.files import write_atomic
from glasshouse.votes.exporters.csv import to_csv
from glasshouse.votes.exporters.json import to_json
from glasshouse.votes.exporters.parquet import to_parquet
from glasshouse.votes.lines import Line

EXPORTERS: dict[str, Callable[[Sequence[Line]], bytes]] = {".csv": to_csv, ".json": to_json, ".parquet": to_parquet}


def export(lines: Sequence[Line], file: Path) -> None:
    """Write the table to a file whose suffix says how."""
    suffix = file.suffix.lower()
    if suffix not in EXPORTERS:
        raise SettingError(f"{file} ends in '{suffix}': choose a name that ends in {', '.join(EXPORTERS)}.")
    write_atomic(file, EXPORTERS[suffix](lines))


__all__ = ["EXPORTERS", "export", "to_csv", "to_json", "to_parquet"]
