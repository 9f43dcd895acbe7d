"""When a network has learned enough to be anybody's target."""

from __future__ import annotations

LEARNED = 5.0  # times chance that a network must be right, or, of few classes, by half of what chance leaves


def enough_for(classes: int, times: float = LEARNED) -> float:
    """How often a network must be right that has learned so many classes: so many times as often as chance."""
    return min(times / classes, (1 + 1 / classes) / 2)
