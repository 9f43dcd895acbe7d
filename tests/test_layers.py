"""Each room imports only rooms of lower rows; names in one row never import each other."""

from __future__ import annotations

import ast
import re
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "glasshouse"

ROWS = (
    {"__main__"},
    {"cli"},
    {"reports", "annotate"},
    {"studies"},
    {"federated"},
    {"attacks", "membership", "metrics", "collection", "votes"},
    {"defenses", "semsim"},
    {"training", "store"},
    {"data", "models"},
    {"functional", "weights"},
    {"registry", "checks", "devices", "files", "plans", "pickles", "rays", "torchvision_cpu", "urls"},
    {"types", "errors", "failpoints", "signals", "versions"},
)
LEVEL = {room: len(ROWS) - number for number, row in enumerate(ROWS) for room in row}


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_rooms(path: Path) -> set[str]:
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "glasshouse":
            parts = node.module.split(".")
            rooms |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            rooms |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("glasshouse.")}
    return rooms


def files() -> list[Path]:
    return [path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py"]


def test_every_room_has_a_row():
    assert {room_of(path) for path in files()} == set(LEVEL)


def test_imports_go_down_only():
    wrong = [
        f"{path.relative_to(SOURCE)} imports {room}"
        for path in files()
        for room in imported_rooms(path) - {room_of(path)}
        if LEVEL[room] >= LEVEL[room_of(path)]
    ]
    assert wrong == []


def test_the_store_knows_no_torch():
    for path in (SOURCE / "store").rglob("*.py"):
        assert "torch" not in path.read_text(encoding="utf-8")


def test_only_the_annotation_page_knows_the_web_framework():
    web = re.compile(r"^\s*(?:from|import) (?:fastapi|starlette|pydantic|uvicorn)\b", re.MULTILINE)
    assert {room_of(path) for path in files() if web.search(path.read_text(encoding="utf-8"))} == {"annotate"}
