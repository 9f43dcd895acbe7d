"""House rules: every registered thing has its file, its test and its page, and the tree stays clean."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from glasshouse.cli.rooms import HOMES, room

ROOT = Path(__file__).parents[1]
THINGS = [(kind, name) for kind in HOMES for name in room(kind).names()]
FOLDERS = {
    "datasets": "data",
    "adversaries": "federated/adversaries",
    "splits": "federated/splits",
    "tasks": "votes/tasks",
}


@pytest.mark.parametrize(("kind", "name"), THINGS)
def test_everything_registered_has_its_file_and_its_page(kind, name):
    assert (ROOT / "src" / "glasshouse" / FOLDERS.get(kind, kind) / f"{name}.py").is_file()
    assert (ROOT / "docs" / kind / f"{name}.md").is_file()


@pytest.mark.parametrize(("kind", "name"), [thing for thing in THINGS if thing[0] != "models"])
def test_everything_registered_has_its_test(kind, name):
    assert (ROOT / "tests" / FOLDERS.get(kind, kind) / f"test_{name}.py").is_file()


@pytest.mark.parametrize(("kind", "name"), THINGS)
def test_every_setting_says_what_it_means(kind, name):
    for setting in room(kind).settings(name):
        assert setting.meaning, f"{kind} {name}: {setting.name}"


def test_print_lives_in_the_command_line_only():
    for path in (ROOT / "src").rglob("*.py"):
        if "cli" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            is_print = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
            assert not is_print, path


def test_no_pickle_is_loaded_outside_the_restricted_reader():
    for path in (ROOT / "src").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert "pickle.load" not in text, path
        assert "weights_only=False" not in text, path


def test_import_is_light():
    code = "import sys, glasshouse, glasshouse.cli.main; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
