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
HEAD = """# Command line

Made by `docs/generate_cli.py` from the commands' own help.

## Exit codes

| code | meaning |
|---|---|
| 0 | done, or as much of it as `--minutes` allowed; single cases that failed are counted in the results |
| 1 | `gate`: too much can be seen. Any other command: a bug of ours, with a traceback |
| 2 | one line says what to do: wrong options, plans or data, a missing extra, no room, or every case failed |
| 130 | interrupted (Ctrl-C); what is finished is kept, and the command that goes on is printed |
| 143 | terminated (SIGTERM), with the same words, where there is something to go on with |

Results go to the standard output, with `--json` as nothing but JSON. Progress goes to the error stream: bars with rate
and time left on a terminal, a line every ten seconds where it is piped. `--quiet` shows none; `--log FILE` adds the
lines to a file, with the time of each, the command before them, warnings among them, and behind them how it ended.
"""


def commands(group: object, words: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Every command of the program, as the words that people type."""
    found = [words]
    for name, command in getattr(group, "commands", {}).items():
        found += commands(command, (*words, name))
    return found


def page() -> str:
    """The whole page."""
    parts = [HEAD]
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
