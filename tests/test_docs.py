"""The README's and the docs' own Python blocks run, commands in them exist, examples run, links lead somewhere."""

from __future__ import annotations

import re
import shlex
from functools import cache
from pathlib import Path

import pytest
import typer

from glasshouse.cli.main import app
from glasshouse.cli.rooms import HOMES, room

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
SHELL = re.compile(r"^```bash\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)#\s]+)[^)]*\)")


def blocks() -> list[tuple[str, str]]:
    found = []
    for page in PAGES:
        code = "\n".join(match[1] for match in BLOCK.finditer(page.read_text(encoding="utf-8")))
        if code:
            found.append((page.relative_to(ROOT).as_posix(), code))
    return found


@pytest.mark.parametrize(("page", "code"), blocks(), ids=lambda value: value if value.endswith(".md") else "")
def test_python_blocks_run(page, code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for kind in HOMES:  # what an example registers does not outlive it
        monkeypatch.setattr(room(kind), "_classes", {name: room(kind).get(name) for name in room(kind).names()})
    exec(compile(code, page, "exec", dont_inherit=True), {"__name__": "__main__"})


def typed(page: Path) -> list[list[str]]:
    """The words of every glasshouse command in a page's shell blocks."""
    text = "\n".join(match[1] for match in SHELL.finditer(page.read_text(encoding="utf-8"))).replace("\\\n", " ")
    lines = [shlex.split(part, comments=True) for line in text.splitlines() for part in line.split("&&")]
    return [words[1:] for words in lines if words[:1] == ["glasshouse"]]


program = cache(lambda: typer.main.get_command(app))


def unknown(words: list[str]) -> list[str]:
    """The commands and options among a command's words that the program does not know."""
    command = program()
    while hasattr(command, "commands"):
        if words[0] not in command.commands:
            return [words[0]]
        command, *words = command.commands[words[0]], *words[1:]
    options = {option for one in command.params for option in (*one.opts, *one.secondary_opts)}
    return [word for word in words if word.startswith("--") and word.partition("=")[0] not in options]


WITH_COMMANDS = [page for page in PAGES if typed(page)]


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_commands_exist(page):
    assert [(words, unknown(words)) for words in typed(page) if unknown(words)] == []


def test_a_command_that_is_not_there_is_found():
    assert unknown(["audit", "--imagse", "3", "--out", "x"]) == ["--imagse"]
    assert unknown(["annotate", "invites", "study"]) == ["invites"]


def test_example_runs(forked):
    done = forked(
        "import runpy, sys; runpy.run_path(sys.argv[1], run_name='__main__')", f"{ROOT}/examples/own_model.py"
    )
    assert done.returncode == 0, done.stderr
    assert "report:" in done.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page):
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "attacks").glob("*.md")), ids=lambda page: page.stem)
def test_every_attack_shows_what_it_saw(page):
    picture = re.compile(r"^!\[[^\]]+\]\(\.\./(pictures/attack-|results/gan)", re.MULTILINE)
    assert picture.search(page.read_text(encoding="utf-8"))
