"""What the page and the server say to each other; everything else is refused."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from glasshouse.store.ballots import IDENTITY, LONGEST_ANSWER

Identity = Annotated[str, Field(pattern=IDENTITY.pattern)]
Answer = Annotated[str, Field(min_length=1, max_length=LONGEST_ANSWER)]
DAY = 24 * 3600 * 1000


class Message(BaseModel):
    """A message without room for anything that is not asked for."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Picture(Message):
    """Where a picture is fetched, and the words under it."""

    address: str
    caption: str


class Asked(Message):
    """One question as the page shows it: pictures and answers, and nothing of where they come from."""

    id: Identity
    question: str
    explanation: str
    pictures: list[Picture]
    answers: list[str]
    none: str | None = Field(description='the words for "none of these", where that may be answered')
    forced: str = Field(description='the question that follows "none"')


class Work(Message):
    """What an annotator has done, and the question now asked with the one after it; no question when all is done."""

    done: int
    total: int
    undoable: bool
    items: list[Asked]


class Ballot(Message):
    """An answer; null stands for "none of these", and ``forced`` is what would be chosen all the same."""

    item: Identity
    answer: Answer | None
    forced: Answer | None = None
    confidence: Literal["certain", "likely", "guess"] | None = None
    milliseconds: int | None = Field(default=None, ge=0, le=DAY)


class Undo(Message):
    """Takes back the last of so many answers; sent twice, it takes back one."""

    done: int = Field(ge=1)


class Problem(Message):
    """Why a request was refused."""

    detail: str


class Share(Message):
    """A value with its 95 % interval."""

    mean: float
    low: float
    high: float


class TaskAgreement(Message):
    """How far people agree in one task: Fleiss' kappa of recognised or not, Krippendorff's alpha of the answers."""

    task: str
    fleiss_kappa: Share | None
    krippendorff_alpha: Share | None
    recognised: Share | None


class Person(Message):
    """One annotator as the owner sees it; ``checks`` is the share of originals or decoys that were right."""

    name: str
    votes: int
    none: float | None
    checks: float | None
    median_seconds: float | None
    last_answer: float | None = Field(description="seconds ago")
    revoked: bool
    flags: list[str]


class Given(Message):
    """How many gave an answer; null stands for "none of these"."""

    answer: str | None
    votes: int


class Disputed(Message):
    """An item on which people disagree, the most common answer first."""

    pictures: list[str]
    condition: str
    truth: str | None
    given: list[Given]


class Overview(Message):
    """How far the study is; ``hours`` counts the votes of the last day, the present hour last.

    ``missing`` is how many people must be invited beside those who are, since nobody sees two versions of one original.
    """

    items: int
    complete: int
    votes: int
    wanted: int
    votes_last_hour: int
    missing: int
    hours: list[int]
    agreement: list[TaskAgreement]
    annotators: list[Person]
    disputed: list[Disputed]
