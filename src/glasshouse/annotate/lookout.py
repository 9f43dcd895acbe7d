"""What takes long to make of all votes, made at most every few seconds."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from glasshouse.store.ballots import Vote
from glasshouse.store.votes import Votes
from glasshouse.votes.agreement import AgreementReport, agreement

REST = 3.0  # seconds between two computations, however many look on


@dataclass(frozen=True, slots=True)
class Findings:
    """What is made of all votes at once, at a moment."""

    at: float
    votes: tuple[Vote, ...]
    reports: tuple[AgreementReport, ...]

    @classmethod
    def of(cls, store: Votes, now: float) -> Findings:
        """Read and judge all votes of people."""
        votes = tuple(store.votes())
        return cls(now, votes, tuple(agreement(store)) if votes else ())


class Lookout:
    """Keeps the last findings for a moment, so that an open overview does not slow the annotators down."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._found: Findings | None = None

    def findings(self, store: Votes, now: float) -> Findings:
        """The findings of now, or of a moment ago."""
        with self._turn:
            if self._found is None or not 0 <= now - self._found.at < REST:
                self._found = Findings.of(store, now)
            return self._found
