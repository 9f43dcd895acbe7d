"""Pair: do an original and a reconstruction, side by side, show the same person or kind?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from glasshouse.store import Role
from glasshouse.votes.tasks.base import Task, tasks

SAME = "same"
DIFFERENT = "different"


@tasks.register("pair")
@dataclass(frozen=True, kw_only=True)
class Pair(Task):
    """Original and reconstruction side by side, with decoys that do not belong together: leaks when called the same."""

    paper: ClassVar[str] = "Sun et al. 2023, Privacy Assessment on Reconstructed Images, section 4.1: faces, breeds"
    explanation: ClassVar[str] = (
        "You will see two pictures side by side. The second was made from the first, or from another one. "
        "Say whether both show the same person or thing."
    )
    roles: ClassVar[frozenset[Role]] = frozenset({"reconstruction", "shuffled", "decoy"})
    captions: ClassVar[tuple[str, ...]] = ("Original", "Reconstruction")
    none: ClassVar[str | None] = None

    @property
    def question(self) -> str:
        """What the annotator is asked."""
        return "Do these two pictures show the same?"

    def answers(self, candidates: Sequence[str]) -> tuple[str, ...]:
        """Same or different, whatever the classes are."""
        return SAME, DIFFERENT

    def truth(self, role: Role, class_name: str) -> str | None:
        """A decoy is different, all else the same."""
        return DIFFERENT if role == "decoy" else SAME
