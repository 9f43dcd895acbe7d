"""See what your shared gradients reveal of private images, and close the curtains.

``import glasshouse`` is light; torch is imported when the first name is used.
"""

from __future__ import annotations

import importlib
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from glasshouse import attacks, data, defenses, metrics, models
    from glasshouse.errors import GlasshouseError
    from glasshouse.reports import write_report
    from glasshouse.studies.audit import audit
    from glasshouse.studies.results import AuditResult

__all__ = [
    "AuditResult",
    "GlasshouseError",
    "attacks",
    "audit",
    "data",
    "defenses",
    "metrics",
    "models",
    "write_report",
]

__version__ = version("glasshouse")

_ROOMS = ("attacks", "data", "defenses", "metrics", "models")
_HOMES = {
    "AuditResult": "glasshouse.studies.results",
    "GlasshouseError": "glasshouse.errors",
    "audit": "glasshouse.studies.audit",
    "write_report": "glasshouse.reports",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name in _ROOMS:
        return importlib.import_module(f"glasshouse.{name}")
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'glasshouse' has no attribute '{name}'")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
