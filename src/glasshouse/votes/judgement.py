"""What counts as recognised: more than half of all votes on an item equal its reference answer.

The reference is the answer that more than half gave for the original, where enough were asked about it, else the
ground truth; each judgement says which. Votes of different kinds are never judged together unless they are passed
together.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from glasshouse.errors import VoteError
from glasshouse.store import Item, Vote, Votes
from glasshouse.store.ballots import check_vote
from glasshouse.votes.tasks import Task, tasks

#: Where a reference answer comes from.
Basis = Literal["original", "truth"]

ENOUGH = 3  # votes on an original that outweigh the ground truth: most of the five people whom the paper asks


@dataclass(frozen=True, slots=True)
class Reference:
    """The answer that gives an original away, None where people cannot tell what it shows or nobody knows."""

    answer: str | None
    basis: Basis


@dataclass(frozen=True, slots=True)
class Judgement:
    """What votes say of one item: how many there are, how many match the reference, and whether that is recognised.

    ``forced_matching`` and ``forced_recognised`` are the same when forced choices stand in for "none".
    """

    item: Item
    reference: Reference
    votes: int
    matching: int
    recognised: bool
    forced_matching: int
    forced_recognised: bool


def judge(items: Iterable[Item], votes: Iterable[Vote], *, enough: int = ENOUGH) -> dict[str, Judgement]:
    """Every item that has a vote, judged: by item."""
    known = {item.id: item for item in items}
    given: defaultdict[str, list[Vote]] = defaultdict(list)
    for vote in votes:
        given[vote.item].append(vote)
    about = {
        (item.task, item.original): [vote.answer for vote in given[item.id]]
        for item in known.values()
        if item.role == "original" and item.id in given
    }
    return {
        item: _judge(known[item], cast, reference(known[item], about, enough))
        for item, cast in given.items()
        if item in known
    }


def judge_reconstructions(votes: Votes) -> dict[tuple[str, int], Judgement]:
    """What people said of reconstructions, by the key of the case and the place of the image.

    Of several tasks about one reconstruction that counts which most people answered.
    """
    items = votes.items()
    judged = judge(items, votes.votes("human"))
    shown = (item for item in items if item.role == "reconstruction" and item.id in judged)
    rising = sorted(shown, key=lambda item: judged[item.id].votes)
    return {(item.case_key, item.place): judged[item.id] for item in rising}


def reference(item: Item, about: dict[tuple[str, str], list[str | None]], enough: int = ENOUGH) -> Reference:
    """What an item is judged against; ``about`` holds the answers that were given for each original of a task."""
    answers = about.get((item.task, item.original), [])
    if task_of(item).asks_originals and len(answers) >= enough:
        answer, count = Counter(answers).most_common(1)[0]
        if 2 * count > len(answers):
            return Reference(answer, "original")
    return Reference(item.truth, "truth")


def matches(item: Item, answer: str | None, against: Reference) -> bool:
    """Whether one answer to an item gives its original away."""
    if answer is None or against.answer is None:
        return False
    return task_of(item).matches(answer, against.answer)


def check_answer(vote: Vote, item: Item) -> None:
    """Refuse a vote that is no answer to its item, "none" among them where its task has none."""
    check_vote(vote, item)
    if vote.answer is None and task_of(item).none is None:
        raise VoteError(f"The task '{item.task}' has no 'none': choose one of {', '.join(item.answers)}.")


def task_of(item: Item) -> Task:
    """The task of an item."""
    return _create(item.task)


@lru_cache(maxsize=64)
def _create(spec: str) -> Task:
    return tasks.create(spec)


def _judge(item: Item, votes: Sequence[Vote], against: Reference) -> Judgement:
    free = [vote.answer for vote in votes]
    forced = [vote.choice for vote in votes]
    task = task_of(item)
    return Judgement(
        item=item,
        reference=against,
        votes=len(votes),
        matching=sum(matches(item, answer, against) for answer in free),
        recognised=task.recognised(free, against.answer),
        forced_matching=sum(matches(item, answer, against) for answer in forced),
        forced_recognised=task.recognised(forced, against.answer),
    )
