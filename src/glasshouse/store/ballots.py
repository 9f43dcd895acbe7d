"""What the votes of a study are made of: items, annotators, votes, and counts of them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, get_args

from glasshouse.errors import VoteError

#: A shuffled item is an original that no attack but a defense, or a degradation, has changed.
Role = Literal["original", "reconstruction", "shuffled", "decoy"]
Kind = Literal["human", "classifier", "model"]

DEGRADED = "degraded"  # how the cases of copies begin that we made to learn from; people are not asked about them
Confidence = Literal["certain", "likely", "guess"]

#: What an id may look like and how long an answer may be, since both travel between page and server.
IDENTITY = re.compile(r"^[0-9a-zA-Z_-]{1,64}$")
LONGEST_ANSWER = 200


@dataclass(frozen=True, slots=True)
class Item:
    """One thing that is asked: which task, of which image, with which answers.

    Everything but ``id``, ``task``, ``answers`` and the pixels of ``image`` and ``beside`` stays hidden from
    annotators. ``original`` is the opaque id of the original that it is judged against; ``other`` that of a second
    original of which it shows a version (a decoy pair). ``case_key`` and ``place`` say which reconstruction of the
    study it is; originals have the empty case. Images are files relative to the study, None where they are not
    public.
    """

    id: str
    task: str
    role: Role
    original: str
    condition: str
    case_key: str
    place: int
    answers: tuple[str, ...]
    truth: str | None = None
    image: str | None = None
    beside: str | None = None
    other: str | None = None

    @property
    def degraded(self) -> bool:
        """Whether it is a copy that we made to learn from."""
        return self.case_key.startswith(DEGRADED)

    @property
    def shows(self) -> frozenset[str]:
        """The originals of which an annotator sees a version here."""
        return frozenset({self.original} if self.other is None else {self.original, self.other})


@dataclass(frozen=True, slots=True)
class Annotator:
    """Somebody, or something, that votes; ``seat`` counts the annotators of a kind in the order of their coming."""

    id: str
    name: str
    kind: Kind
    seat: int
    token_hash: str | None = None
    revoked: bool = False


@dataclass(frozen=True, slots=True)
class Vote:
    """One answer of one annotator: None stands for "none of these / cannot tell".

    ``forced`` is what the annotator would have chosen beside that None. ``seconds`` is the time taken, ``when`` the
    moment in seconds since 1970. ``grade`` is a soft vote in [0, 1], how surely the original is seen; people give none.
    """

    item: str
    annotator: str
    answer: str | None
    forced: str | None = None
    confidence: Confidence | None = None
    seconds: float | None = None
    when: float = 0.0
    grade: float | None = None

    @property
    def choice(self) -> str | None:
        """The answer, or the forced choice beside "none"."""
        return self.forced if self.answer is None else self.answer


@dataclass(frozen=True, slots=True)
class Rules:
    """How many votes an item gets, how long it is held for an annotator, and the seed of every order."""

    votes_per_item: int = 5
    hold_seconds: float = 900.0
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an annotator is: votes given, and how many there will be about."""

    done: int
    total: int


@dataclass(frozen=True, slots=True)
class Overview:
    """Counts over people's votes: items, items with all their votes, votes, votes of the last hour, annotators."""

    items: int
    complete: int
    votes: int
    votes_last_hour: int
    annotators: int


def values_of(record: Item | Vote) -> dict[str, Any]:
    """The fields of a record by name; ``asdict`` would copy each value deeply and take ten times as long."""
    return {name: getattr(record, name) for name in record.__slots__}


def check_answers(answers: Iterable[str]) -> None:
    """Refuse answers that the page could not send back."""
    for answer in answers:
        if not 1 <= len(answer) <= LONGEST_ANSWER:
            raise VoteError(
                f"Answer '{answer[:40]}' has {len(answer)} characters: give each answer 1 to {LONGEST_ANSWER}."
            )


def check_vote(vote: Vote, item: Item) -> None:
    """Refuse a vote that is no answer to its item."""
    for name, value in (("answer", vote.answer), ("forced choice", vote.forced)):
        if value is not None and value not in item.answers:
            raise VoteError(f"{name} '{value}' is not among the answers: choose one of {', '.join(item.answers)}.")
    if vote.answer is not None and vote.forced is not None:
        raise VoteError("A forced choice stands beside 'none' only: leave it out where there is an answer.")
    if vote.confidence is not None and vote.confidence not in get_args(Confidence):
        raise VoteError(f"confidence '{vote.confidence}' is not known: use {', '.join(get_args(Confidence))}.")
    if vote.seconds is not None and not (math.isfinite(vote.seconds) and vote.seconds >= 0):
        raise VoteError(f"seconds={vote.seconds} is no time: give a finite number of at least 0.")
    if vote.grade is not None and not 0 <= vote.grade <= 1:
        raise VoteError(f"grade={vote.grade} is no soft vote: give a number from 0 to 1, or none.")
