"""Plans to begin with: one file each, with ``laptop()`` and ``paper()``, each of which returns a plan."""

from __future__ import annotations

import importlib
import pkgutil

from glasshouse import checks
from glasshouse.errors import UnknownNameError
from glasshouse.studies.reading import AnyPlan

SCALES = ("laptop", "paper")


def names() -> tuple[str, ...]:
    """Every preset."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))


def create(name: str, scale: str) -> AnyPlan:
    """The plan of a preset at a scale: 'laptop' ends within hours, 'paper' has the counts of the papers."""
    if name not in names():
        raise UnknownNameError("preset", name, names())
    checks.one_of("scale", scale, SCALES)
    plan: AnyPlan = getattr(importlib.import_module(f"{__name__}.{name}"), scale)()
    return plan


def summary(name: str) -> str:
    """What a preset is for, in one sentence."""
    return (importlib.import_module(f"{__name__}.{name}").__doc__ or "").strip().splitlines()[0]
