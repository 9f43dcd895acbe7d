"""The registries by the words that people type."""

from __future__ import annotations

import importlib
from typing import Any

from glasshouse.errors import UnknownNameError
from glasshouse.registry import Registry

HOMES = {
    "attacks": ("glasshouse.attacks", "attacks"),
    "membership": ("glasshouse.membership", "membership"),
    "defenses": ("glasshouse.defenses", "defenses"),
    "metrics": ("glasshouse.metrics", "metrics"),
    "models": ("glasshouse.models", "models"),
    "datasets": ("glasshouse.data", "datasets"),
    "adversaries": ("glasshouse.federated.adversaries", "adversaries"),
    "splits": ("glasshouse.federated.splits", "splits"),
    "tasks": ("glasshouse.votes.tasks", "tasks"),
}


def room(what: str) -> Registry[Any]:
    """The registry behind a word, singular or plural."""
    word = what if what in HOMES else f"{what}s"
    if word not in HOMES:
        raise UnknownNameError("kind", what, HOMES)
    module, name = HOMES[word]
    registry: Registry[Any] = getattr(importlib.import_module(module), name)
    return registry


def summary(cls: type) -> str:
    """The first sentence of a class's docstring, and whether an attack takes weight updates: few do."""
    note = " Takes weight updates, too." if getattr(cls, "takes_updates", False) else ""
    return (cls.__doc__ or "").strip().splitlines()[0] + note
