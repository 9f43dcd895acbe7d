"""What takes long to make of all votes, made every few seconds at most."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from glasshouse.store.ballots import Vote
from glasshouse.store.votes import Votes
from glasshouse.votes.agreement import AgreementReport, agreement

REST = 3.0  # seconds between two computations at least, however many look on
SHARE = 10  # and so many times what the last one took


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
    """Keeps the last findings for a while, so that an open overview does not slow the annotators down."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._found: Findings | None = None
        self._rest = REST

    def findings(self, store: Votes, now: float) -> Findings:
        """The findings of now, or of a while ago; of a large study they are made less often."""
        found = self._found
        if found is not None and 0 <= now - found.at < self._rest:
            return found
        if not self._turn.acquire(blocking=found is None) and found is not None:
            return found  # somebody else is making new ones
        try:
            began = time.perf_counter()
            self._found = found = Findings.of(store, now)
            self._rest = max(REST, SHARE * (time.perf_counter() - began))
        finally:
            self._turn.release()
        return found
