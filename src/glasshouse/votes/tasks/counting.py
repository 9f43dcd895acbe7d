"""Counting: how many things are in the picture? The example of a task with a rule of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from glasshouse import checks
from glasshouse.registry import setting
from glasshouse.store import Role
from glasshouse.votes.tasks.base import Task, tasks


@tasks.register("counting")
@dataclass(frozen=True, kw_only=True)
class Counting(Task):
    """How many there are: privacy leaks when the number comes close to that of the original."""

    paper: ClassVar[str] = "Sun et al. 2023, Privacy Assessment on Reconstructed Images, section E: object counting"
    explanation: ClassVar[str] = "You will see pictures, one after another. Say how many there are in each."
    roles: ClassVar[frozenset[Role]] = frozenset({"original", "reconstruction", "shuffled"})
    none: ClassVar[str | None] = "I cannot tell"

    what: str = setting("objects", "what is counted")
    most: int = setting(9, "the largest number among the answers; more is one answer")
    tolerance: int = setting(0, "how far from the original's number still counts as leaked")

    def __post_init__(self) -> None:
        checks.between("most", self.most, 1, 18)
        checks.at_least("tolerance", self.tolerance, 0)

    @property
    def question(self) -> str:
        """What the annotator is asked."""
        return f"How many {self.what} are in this picture?"

    def answers(self, candidates: Sequence[str]) -> tuple[str, ...]:
        """The numbers, whatever the classes are."""
        return (*(str(number) for number in range(self.most + 1)), f"more than {self.most}")

    def truth(self, role: Role, class_name: str) -> str | None:
        """Nobody counted yet: the answers for the original decide."""
        return None

    def matches(self, answer: str, reference: str) -> bool:
        """Whether the numbers differ by no more than the tolerance."""
        return abs(self._number(answer) - self._number(reference)) <= self.tolerance

    def _number(self, answer: str) -> int:
        return int(answer) if answer.isdecimal() else self.most + 1
