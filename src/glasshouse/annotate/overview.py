"""The owner's live overview: how far the study is, who votes how, and where people disagree."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import get_args

from fastapi import APIRouter

from glasshouse.annotate.lookout import Findings
from glasshouse.annotate.messages import Disputed, Given, Overview, Person, Share, TaskAgreement
from glasshouse.annotate.pictures import Side, address
from glasshouse.annotate.visits import Owning
from glasshouse.annotate.work import REFUSALS
from glasshouse.store.assignment import needed
from glasshouse.store.ballots import Annotator, Item, Vote
from glasshouse.types import Interval
from glasshouse.votes.agreement import AgreementReport, AnnotatorReport
from glasshouse.votes.status import missing

HOUR = 3600.0
HOURS = 24
SHOWN = 12  # disputed items

router = APIRouter(prefix="/api", tags=["owner"])


@router.get("/overview", responses=REFUSALS)
def overview(visit: Owning) -> Overview:
    """Counts, agreement, annotators and the most disputed items; people's votes alone."""
    store, now = visit.site.votes, visit.site.clock()
    counts, rules = store.overview(now), store.rules()
    found = visit.site.lookout.findings(store, now)
    items = {item.id: item for item in store.items()}
    return Overview(
        items=counts.items,
        complete=counts.complete,
        votes=counts.votes,
        wanted=counts.items * rules.votes_per_item,
        votes_last_hour=counts.votes_last_hour,
        missing=missing(counts, needed(store.table(), rules.votes_per_item)),
        hours=per_hour(found.votes, now),
        agreement=[_agreement(report) for report in found.reports],
        annotators=people(store.annotators(), found, now),
        disputed=[_disputed(visit.token, items[item], given) for item, given in most_disputed(found.votes)],
    )


def per_hour(votes: Sequence[Vote], now: float) -> list[int]:
    """Votes in each of the last hours, the present one last."""
    ago = Counter(int((now - vote.when) // HOUR) for vote in votes)
    return [ago[hour] for hour in reversed(range(HOURS))]


def most_disputed(votes: Sequence[Vote]) -> list[tuple[str, Counter[str | None]]]:
    """The items with the most pairs of votes that differ; unanimous ones never."""
    given: defaultdict[str, Counter[str | None]] = defaultdict(Counter)
    for vote in votes:
        given[vote.item][vote.answer] += 1
    disputed = [(item, answers) for item, answers in given.items() if len(answers) > 1]
    return sorted(disputed, key=lambda one: (-_differing_pairs(one[1]), one[0]))[:SHOWN]


def _differing_pairs(answers: Counter[str | None]) -> int:
    return (answers.total() ** 2 - sum(count**2 for count in answers.values())) // 2


def people(annotators: Sequence[Annotator], found: Findings, now: float) -> list[Person]:
    """Every person who was invited, with what is known of their votes in all tasks."""
    reports: defaultdict[str, list[AnnotatorReport]] = defaultdict(list)
    for report in found.reports:
        for one in report.annotators:
            reports[one.name].append(one)
    last = {vote.annotator: vote.when for vote in found.votes}  # votes come in the order of time
    return [_person(one, reports[one.name], last.get(one.id), now) for one in annotators if one.kind == "human"]


def _person(annotator: Annotator, reports: Sequence[AnnotatorReport], last: float | None, now: float) -> Person:
    return Person(
        name=annotator.name,
        votes=sum(report.votes for report in reports),
        none=_pooled([report.none for report in reports]),
        checks=_pooled([share for report in reports for share in (report.originals, report.decoys)]),
        median_seconds=max((one.median_seconds for one in reports if one.median_seconds is not None), default=None),
        last_answer=None if last is None else max(now - last, 0.0),
        revoked=annotator.revoked,
        flags=[flag for report in reports for flag in report.flags],
    )


def _pooled(shares: Sequence[Interval | None]) -> float | None:
    """The share over several tasks, each weighed by how much was asked."""
    known = [share for share in shares if share is not None]
    asked = sum(share.images for share in known)
    return sum(share.mean * share.images for share in known) / asked if asked else None


def _agreement(report: AgreementReport) -> TaskAgreement:
    return TaskAgreement(
        task=report.task,
        fleiss_kappa=_share(report.fleiss_kappa),
        krippendorff_alpha=_share(report.krippendorff_alpha),
        recognised=_share(report.recognised),
    )


def _share(value: Interval | None) -> Share | None:
    return None if value is None else Share(mean=value.mean, low=value.low, high=value.high)


def _disputed(token: str, item: Item, given: Counter[str | None]) -> Disputed:
    sides = [side for side in reversed(get_args(Side)) if getattr(item, side) is not None]
    return Disputed(
        pictures=[address(token, item, side) for side in sides],
        condition=item.condition,
        truth=item.truth,
        given=[Given(answer=answer, votes=count) for answer, count in given.most_common()],
    )
