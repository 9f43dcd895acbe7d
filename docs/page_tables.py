"""What pages of results have in common: tables, and figures with their intervals."""

from __future__ import annotations

from collections.abc import Sequence


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A table in Markdown."""
    lines = [[cell.replace("|", "\\|") for cell in line] for line in (heads, *rows)]
    return ["| " + " | ".join(line) + " |" for line in (lines[0], ["---"] * len(heads), *lines[1:])]


def value(found: dict, name: str) -> str:
    """A figure with its interval, whose ends may be unknown."""
    shown = [_rounded(found.get(key)) for key in (name, f"{name}_low", f"{name}_high")]
    return "n/a" if found.get(name) is None else "{} [{}, {}]".format(*shown)


def _rounded(number: float | None) -> str:
    """A number with three digits behind the point; what is 0 to the eye has no sign."""
    return "n/a" if number is None else f"{round(number, 3) + 0.0:.3f}"
