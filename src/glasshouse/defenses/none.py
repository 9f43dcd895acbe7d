"""No defense at all: what every other one is compared with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from glasshouse.defenses.base import Defense, defenses


@defenses.register("none")
@dataclass(frozen=True, kw_only=True)
class Undefended(Defense):
    """Shares what training made, unchanged."""

    paper: ClassVar[str] = "the baseline of every paper"
