"""The one table of votes that leaves a study: a line for each vote, with its item and how that was judged."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from glasshouse.store import Item, Kind, Vote, Votes
from glasshouse.votes.judgement import Judgement, judge


@dataclass(frozen=True, slots=True)
class Line:
    """One vote, or an item without votes: then all from ``annotator`` on is None.

    ``answers`` is a JSON list. ``answer`` None beside an annotator is "none of these". ``recognised`` is of the item,
    from the votes of this table; ``reference`` is the answer that it was judged by and ``basis`` where that came from.
    """

    item: str
    task: str
    role: str
    original: str
    other: str | None
    condition: str
    case_key: str
    place: int
    image: str | None
    beside: str | None
    answers: str
    truth: str | None
    annotator: str | None = None
    kind: str | None = None
    answer: str | None = None
    forced: str | None = None
    confidence: str | None = None
    seconds: float | None = None
    when: float | None = None
    reference: str | None = None
    basis: str | None = None
    recognised: bool | None = None
    forced_recognised: bool | None = None
    grade: float | None = None


def lines(store: Votes, kind: Kind | None = "human") -> list[Line]:
    """The votes of one kind as a table, items without votes last; all kinds together only where None asks for it."""
    items = store.items()
    votes = store.votes(kind)
    people = {one.id: one for one in store.annotators()}
    judged = judge(items, votes)
    known = {item.id: item for item in items}
    given = [
        _line(known[vote.item], vote, people[vote.annotator].name, people[vote.annotator].kind, judged[vote.item])
        for vote in votes
    ]
    return [*given, *(_of_item(item) for item in items if item.id not in judged)]


def _of_item(item: Item) -> Line:
    return Line(
        item=item.id,
        task=item.task,
        role=item.role,
        original=item.original,
        other=item.other,
        condition=item.condition,
        case_key=item.case_key,
        place=item.place,
        image=item.image,
        beside=item.beside,
        answers=json.dumps(item.answers, ensure_ascii=False),
        truth=item.truth,
    )


def _line(item: Item, vote: Vote, name: str, kind: Kind, judged: Judgement) -> Line:
    return replace(
        _of_item(item),
        annotator=name,
        kind=kind,
        answer=vote.answer,
        forced=vote.forced,
        confidence=vote.confidence,
        seconds=vote.seconds,
        when=vote.when,
        reference=judged.reference.answer,
        basis=judged.reference.basis,
        recognised=judged.recognised,
        forced_recognised=judged.forced_recognised,
        grade=vote.grade,
    )
