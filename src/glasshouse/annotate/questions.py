"""From an item to the question that the page shows."""

from __future__ import annotations

import random
from typing import get_args

from glasshouse.annotate.messages import Asked, Picture
from glasshouse.annotate.pictures import Side, address
from glasshouse.annotate.visits import AnnotatorVisit
from glasshouse.store.ballots import Annotator, Item
from glasshouse.votes.judgement import task_of

FORCED = "If you had to choose, which one would it be?"


def asked(visit: AnnotatorVisit, item: Item) -> Asked:
    """An item as one annotator sees it: its pictures and answers, and nothing of where they come from."""
    task = task_of(item)
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
