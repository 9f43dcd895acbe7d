"""Classification: which of up to twenty classes is this a picture of?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from glasshouse.store import Role
from glasshouse.votes.tasks.base import Task, tasks


@tasks.register("classification")
@dataclass(frozen=True, kw_only=True)
class Classification(Task):
    """One picture at a time, never the original beside it: privacy leaks when the class of the original is named."""

    paper: ClassVar[str] = "Sun et al. 2023, Privacy Assessment on Reconstructed Images, section 4.1: objects"
    explanation: ClassVar[str] = (
        "You will see pictures, one after another, some of them hard to make out. Choose what you see in each."
    )
    roles: ClassVar[frozenset[Role]] = frozenset({"original", "reconstruction", "shuffled"})
    shuffled: ClassVar[bool] = True
    needs_candidates: ClassVar[bool] = True

    @property
    def question(self) -> str:
        """What the annotator is asked."""
        return "What is in this picture?"

    def answers(self, candidates: Sequence[str]) -> tuple[str, ...]:
        """The candidate classes."""
        return tuple(candidates)

    def truth(self, role: Role, class_name: str) -> str | None:
        """The class of the original."""
        return class_name
