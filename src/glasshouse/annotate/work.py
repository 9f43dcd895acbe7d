"""What the page asks of the server: the next questions, an answer, and the last answer back."""

from __future__ import annotations

from fastapi import APIRouter

from glasshouse.annotate.desk import AnnotatorVisit, Visiting, Writing
from glasshouse.annotate.messages import Ballot, Problem, Undo, Work
from glasshouse.annotate.questions import asked
from glasshouse.store.ballots import Vote

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
    return _work(visit)


@router.post("/votes", responses=WRITE_REFUSALS)
def vote(ballot: Ballot, visit: Writing) -> Work:
    """Save an answer, for good when this returns; sending the same answer again changes nothing."""
    seconds = None if ballot.milliseconds is None else ballot.milliseconds / 1000
    visit.desk.votes.vote(
        Vote(
            ballot.item,
            visit.annotator.id,
            ballot.answer,
            ballot.forced,
            ballot.confidence,
            seconds,
            visit.desk.clock(),
        )
    )
    return _work(visit)


@router.post("/undo", responses=WRITE_REFUSALS)
def undo(_: Undo, visit: Writing) -> Work:
    """Take back the last answer; its question is asked again."""
    visit.desk.votes.undo(visit.annotator.id, visit.desk.clock())
    return _work(visit)


def _work(visit: AnnotatorVisit) -> Work:
    votes, annotator = visit.desk.votes, visit.annotator.id
    items = votes.claim(annotator, visit.desk.clock(), AHEAD)
    progress = votes.progress(annotator)
    return Work(
        done=progress.done,
        total=progress.total if items else progress.done,
        undoable=progress.done > 0,
        items=[asked(visit, item) for item in items],
    )
