"""The contract of tasks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, final

from glasshouse.registry import Registry
from glasshouse.store import Role


class Task(ABC):
    """A question about a picture, the answers among which annotators choose, and when an answer leaks.

    ``roles`` are the versions of an original that it asks about; ``captions`` stand above its pictures, and where
    there are two the first is the original's. ``none`` is the wording of "none of these", or None where one of the
    answers must be chosen. ``shuffled`` says whether each annotator gets the answers in another order, and
    ``needs_candidates`` whether the answers are classes.
    """

    name: ClassVar[str]
    paper: ClassVar[str]
    explanation: ClassVar[str]
    roles: ClassVar[frozenset[Role]]
    captions: ClassVar[tuple[str, ...]] = ("",)
    none: ClassVar[str | None] = "None of these, or I cannot tell"
    shuffled: ClassVar[bool] = False
    needs_candidates: ClassVar[bool] = False

    @property
    @abstractmethod
    def question(self) -> str:
        """What the annotator is asked."""

    @abstractmethod
    def answers(self, candidates: Sequence[str]) -> tuple[str, ...]:
        """The answers to choose from; ``candidates`` are the classes that the original may be taken for."""

    @abstractmethod
    def truth(self, role: Role, class_name: str) -> str | None:
        """The right answer for a version of an original of this class, where it is known without asking."""

    def matches(self, answer: str, reference: str) -> bool:
        """Whether one answer gives away what the reference answer says."""
        return answer == reference

    @final
    @property
    def asks_originals(self) -> bool:
        """Whether the answers for the originals themselves are asked for."""
        return "original" in self.roles

    @final
    @property
    def shows_original(self) -> bool:
        """Whether the original stands beside each picture."""
        return len(self.captions) == 2

    @final
    def recognised(self, answers: Sequence[str | None], reference: str | None) -> bool:
        """Whether more than half of all answers match the reference; "none" is an answer that never does."""
        if reference is None:
            return False
        matching = sum(answer is not None and self.matches(answer, reference) for answer in answers)
        return 2 * matching > len(answers)


tasks: Registry[Task] = Registry("task", "glasshouse.votes.tasks")
