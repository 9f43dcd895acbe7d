"""``glasshouse show``: one attack, defense, metric, model, dataset or task with all its settings."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

FACTS = (
    "paper",
    "adversary",
    "needs",
    "label_use",
    "takes_updates",
    "takes_some_layers",
    "leaks_when",
    "source",
    "terms",
)


def show(
    kind: Annotated[str, typer.Argument(help="attack, defense, metric, model, dataset or task")],
    name: Annotated[str, typer.Argument(help="its name")],
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Show settings, defaults, meaning, paper, and what an attacker must know."""
    facts = described(kind, name)
    if as_json:
        print(json.dumps(facts))
        return
    settings = facts.pop("settings")
    for fact, value in facts.items():
        print(f"{fact.replace('_', ' ')}: {', '.join(value) if isinstance(value, list) else value}")
    print("settings:" if settings else "settings: none")
    for one in settings:
        print(f"  {one['name']} ({one['type']}, default {one['default']}): {one['meaning']}")


def described(kind: str, name: str) -> dict[str, Any]:
    """What a registered class says of itself: its docstring, its facts, its settings."""
    from glasshouse.cli.rooms import room

    registry = room(kind)
    cls = registry.get(name)
    facts: dict[str, Any] = {"name": name, "what": " ".join((cls.__doc__ or "").split())}
    for fact in FACTS:
        value = getattr(cls, fact, None)
        if isinstance(value, frozenset):
            facts[fact] = sorted(str(one) for one in value)
        elif isinstance(value, str):
            facts[fact] = value
        elif isinstance(value, bool):
            facts[fact] = "yes" if value else "no"
    facts["settings"] = [
        {"name": one.name, "type": one.kind, "default": one.default, "meaning": one.meaning}
        for one in registry.settings(name)
    ]
    return facts
