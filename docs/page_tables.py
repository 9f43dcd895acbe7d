"""What pages of results have in common: tables, and figures with their intervals."""

from __future__ import annotations

from collections.abc import Sequence


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A table in Markdown."""
    lines = [[cell.replace("|", "\\|") for cell in line] for line in (heads, *rows)]
    return ["| " + " | ".join(line) + " |" for line in (lines[0], ["---"] * len(heads), *lines[1:])]


def value(found: dict, name: str) -> str:
    """A figure with its interval, whose ends may be unknown."""
    if found.get(name) is None:
        return "n/a"
    ends = ("n/a" if found[f"{name}_{end}"] is None else f"{found[f'{name}_{end}']:.3f}" for end in ("low", "high"))
    return f"{found[name]:.3f} [{', '.join(ends)}]"
