"""From an item to the question that the page shows."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import get_args

from glasshouse.annotate.desk import AnnotatorVisit
from glasshouse.annotate.messages import Asked, Picture
from glasshouse.annotate.pictures import Side, address
from glasshouse.store.ballots import Annotator, Item


@dataclass(frozen=True)
class _Task:
    question: str
    explanation: str
    none: str | None
    captions: tuple[str, ...]
    shuffled: bool

_TASKS = {
 "classification": _Task("What is in this picture?", "You will see pictures, one after another, some of them hard to make out. Choose what you see in each.", "None of these, or I cannot tell", ("",), True),
 "pair": _Task("Do these two show the same?", "You will see two pictures side by side.", None, ("Original", "Reconstruction"), False),
}
FORCED = "If you had to choose, which one would it be?"


def asked(visit: AnnotatorVisit, item: Item) -> Asked:
    """An item as one annotator sees it: its pictures and answers, and nothing of where they come from."""
    task = _TASKS[item.task]
    sides = [side for side in reversed(get_args(Side)) if getattr(item, side) is not None]
    return Asked(
        id=item.id,
        question=task.question,
        explanation=task.explanation,
        pictures=[
            Picture(address=address(visit.token, item, side), caption=caption)
            for side, caption in zip(sides, task.captions, strict=True)
        ],
        answers=list(shuffled(item, visit.annotator) if task.shuffled else item.answers),
        none=task.none,
        forced=FORCED,
    )


def shuffled(item: Item, annotator: Annotator) -> tuple[str, ...]:
    """The answers in an order of this annotator's own, the same whenever the item is shown."""
    order = random.Random(f"{annotator.id}/{item.original}")
    return tuple(order.sample(item.answers, len(item.answers)))
