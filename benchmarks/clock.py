"""Timing: the median of repeated calls, after one that warms up."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable


def seconds(call: Callable[[], object], *, repeats: int = 5) -> float:
    """Median seconds of a call."""
    return statistics.median(_times(call, repeats))


def best(call: Callable[[], object], *, repeats: int = 300) -> float:
    """Least seconds of a call: what it takes when nothing else interferes."""
    return min(_times(call, repeats))


def _times(call: Callable[[], object], repeats: int) -> list[float]:
    call()
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return times


def row(what: str, measured: str, wanted: str, reached: bool) -> dict[str, object]:
    """One line of a table of results."""
    return {"what": what, "measured": measured, "wanted": wanted, "reached": reached}
