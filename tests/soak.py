"""How often a test that counts tries: few times in ``make test``, many in ``make soak``."""

from __future__ import annotations

import os

#: Of the many, the share that is tried: nothing in ``make test``, all in ``make soak``.
SHARE = float(os.environ.get("GLASSHOUSE_SOAK") or 0)


def count(few: int, many: int) -> int:
    """How many tries there are."""
    return max(few, round(SHARE * many))
