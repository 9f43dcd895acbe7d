"""How often a test that counts tries: few times in ``make test``, many in ``make soak``, which may come in slices.

What a test tries in slices it records as numbers, which add up; all else it records as text.
"""

from __future__ import annotations

import os

#: Of the many, the share that is tried: nothing in ``make test``, all in ``make soak``.
SHARE = float(os.environ.get("GLASSHOUSE_SOAK") or 0)
#: Of things that could all be tried, such as every write, only each so manyth is.
EVERY = round(1 / SHARE) if SHARE else 9


def count(few: int, many: int) -> int:
    """How many tries there are."""
    return max(few, round(SHARE * many))


def piece() -> int:
    """Which slice this is: each draws other random numbers."""
    return int(os.environ.get("GLASSHOUSE_SOAK_SLICE") or 0)


def first() -> int:
    """Which of things that could all be tried comes first: after enough slices all are."""
    return piece() % EVERY
