"""``glasshouse list``: what there is."""

from __future__ import annotations

import json
from typing import Annotated

import typer


def list_names(
    what: Annotated[str, typer.Argument(help="attacks, defenses, metrics, models, datasets or tasks")],
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """List attacks, defenses, metrics, models, datasets or tasks."""
    from glasshouse.cli.rooms import room, summary

    registry = room(what)
    found = {name: summary(registry.get(name)) for name in registry.names()}
    if as_json:
        print(json.dumps(found))
        return
    width = max(len(name) for name in found)
    for name, line in found.items():
        print(f"{name:<{width}}  {line}")
