"""Write docs/cli.md from the commands' own help; ``--check`` says whether it is up to date."""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ["COLUMNS"] = "100"
os.environ["TERM"] = "dumb"

import typer
from typer.testing import CliRunner

from glasshouse.cli.main import app

PAGE = Path(__file__).parent / "cli.md"


def commands(group: object, words: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Every command of the program, as the words that people type."""
    found = [words]
    for name, command in getattr(group, "commands", {}).items():
        found += commands(command, (*words, name))
    return found


def page() -> str:
    """The whole page."""
    parts = ["# Command line\n\nMade by `docs/generate_cli.py` from the commands' own help.\n"]
    for words in commands(typer.main.get_command(app)):
        shown = " ".join(("glasshouse", *words))
        text = CliRunner().invoke(app, [*words, "--help"], prog_name="glasshouse").output.rstrip()
        parts.append(f"## {shown}\n\n```text\n{text}\n```\n")
    return "\n".join(parts)


def main() -> None:
    """Write the page, or compare it."""
    if "--check" not in sys.argv:
        PAGE.write_text(page(), encoding="utf-8")
    elif PAGE.read_text(encoding="utf-8") != page():
        sys.exit("docs/cli.md is out of date: run python docs/generate_cli.py")


main()
