"""What the page asks of the server: the next questions, an answer, and the last answer back."""

from __future__ import annotations

from fastapi import APIRouter

from glasshouse.annotate.messages import Ballot, Problem, Undo, Work
from glasshouse.annotate.questions import asked
from glasshouse.annotate.visits import AnnotatorVisit, Visiting, Writing
from glasshouse.store.ballots import Item, Vote
from glasshouse.votes.judgement import check_answer

AHEAD = 2  # the question on the screen, and the one whose pictures are fetched meanwhile

REFUSALS: dict[int | str, dict[str, object]] = {
    403: {"model": Problem, "description": "No valid link, or not sent by our own page."},
    429: {"model": Problem, "description": "Too many requests."},
}
WRITE_REFUSALS = {
    **REFUSALS,
    409: {"model": Problem, "description": "The item is not held for this annotator, or no such answer is among its."},
    413: {"model": Problem, "description": "The body is too long."},
}

router = APIRouter(prefix="/api", tags=["annotator"])


@router.get("/work", responses=REFUSALS)
def next_work(visit: Visiting) -> Work:
    """The question that this annotator is asked now, and the one after it. Asking again gives the same ones."""
    return _work(visit, _claim(visit))


@router.post("/votes", responses=WRITE_REFUSALS)
def vote(ballot: Ballot, visit: Writing) -> Work:
    """Save an answer, for good when this returns; sending the same answer again changes nothing."""
    now = visit.site.clock()
    given = Vote(
        item=ballot.item,
        annotator=visit.annotator.id,
        answer=ballot.answer,
        forced=ballot.forced,
        confidence=ballot.confidence,
        seconds=None if ballot.milliseconds is None else ballot.milliseconds / 1000,
        when=now,
    )
    item = visit.site.votes.item(ballot.item)
    if item is not None:
        check_answer(given, item)
    return _work(visit, visit.site.votes.vote_and_claim(given, now, AHEAD))


@router.post("/undo", responses=WRITE_REFUSALS)
def undo(last: Undo, visit: Writing) -> Work:
    """Take back the last answer, and ask its question again; sending the same again changes nothing."""
    visit.site.votes.undo(visit.annotator.id, visit.site.clock(), last.done)
    return _work(visit, _claim(visit))


def _claim(visit: AnnotatorVisit) -> tuple[Item, ...]:
    return visit.site.votes.claim(visit.annotator.id, visit.site.clock(), AHEAD)


def _work(visit: AnnotatorVisit, items: tuple[Item, ...]) -> Work:
    progress = visit.site.votes.progress(visit.annotator.id)
    return Work(
        done=progress.done,
        total=progress.total if items else progress.done,
        undoable=progress.done > 0,
        items=[asked(visit, item) for item in items],
    )
