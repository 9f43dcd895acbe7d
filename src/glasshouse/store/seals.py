"""Checksums of what a study found: they tell a row that was written from one that the disk made of it."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Sequence

#: Where a picture is, as the seal of its case covers it: place, file and SHA-256.
Held = tuple[int, str, str]


def sealed(values: Sequence[object]) -> int:
    """CRC-32 of some values; a fault is found by it, a forger is not."""
    return zlib.crc32(json.dumps(values, default=repr).encode())  # damage turns numbers into bytes


def sealed_case(key: str, facts: str, pictures: Iterable[Held]) -> int:
    """The seal of a finished case: of its facts and of its reconstructions, so that none is lost or changes hands."""
    return sealed((key, facts, sorted(pictures, key=repr)))
