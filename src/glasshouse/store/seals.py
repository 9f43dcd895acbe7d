"""Checksums of what a study found: they tell a row that was written from one that the disk made of it."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path

from glasshouse.files import write_atomic
from glasshouse.types import JSON

SEAL = "seal"  # what a file with a row of its own calls the row's checksum

#: Where a picture is, as the seal of its case covers it: place, file and SHA-256.
Held = tuple[int, str, str]


def sealed(values: Sequence[object]) -> int:
    """CRC-32 of some values; a fault is found by it, a forger is not."""
    return zlib.crc32(json.dumps(values, default=repr).encode())  # damage turns numbers into bytes


def sealed_case(key: str, facts: str, pictures: Iterable[Held]) -> int:
    """The seal of a finished case: of its facts and of its reconstructions, so that none is lost or changes hands."""
    return sealed((key, facts, sorted(pictures, key=repr)))


def write_sealed(file: Path, row: JSON, *, infinite: bool = False) -> None:
    """Write a row into a file of its own, with its checksum; infinite values only where nobody but us reads them."""
    write_atomic(file, json.dumps({**row, SEAL: sealed((row,))}, indent=1, allow_nan=infinite).encode())


def read_sealed(file: Path) -> JSON | None:
    """The row in a file of its own, if there is one as it was written; rows that are older than seals have none."""
    try:
        row: JSON = json.loads(file.read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    if not isinstance(row, dict) or row.pop(SEAL, None) not in (None, sealed((row,))):
        return None
    return row
