"""How far the votes of a study can be trusted: agreement between annotators, and what each of them is like."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from glasshouse.errors import DataError, StudyError
from glasshouse.functional.agreement import (
    MISSING,
    dawid_skene,
    detection,
    fleiss_kappa,
    krippendorff_alpha,
    tally,
    unanimous,
)
from glasshouse.functional.intervals import share_interval
from glasshouse.store import Annotator, Item, Kind, Vote, Votes
from glasshouse.types import JSON, Interval, finite_json, finite_or_none
from glasshouse.votes.judgement import Judgement, Reference, judge, matches

SCHEMA = 1
ATTENTIVE = 0.7  # of originals and decoys right; a person whose whole interval lies below is flagged
QUICK = 0.5  # seconds; nobody looks at a picture and reads twenty classes in less

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class AnnotatorReport:
    """One annotator of one task.

    ``recognition`` and ``none`` are shares of the votes on versions, ``originals`` and ``decoys`` shares that were
    right. Sensitivity ``d_prime`` and bias ``criterion`` (high: says no) tell true pairs from decoys where there are
    decoys, else what the other annotators recognised from what they did not. ``reliability`` is the estimate of Dawid
    and Skene. ``flags`` are reasons to look closer; nobody is ever left out for them.
    """

    name: str
    kind: Kind
    votes: int
    recognition: Interval | None
    none: Interval | None
    d_prime: Interval | None
    criterion: Interval | None
    originals: Interval | None
    decoys: Interval | None
    reliability: float | None
    median_seconds: float | None
    revoked: bool
    flags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AgreementReport:
    """One task's votes of one kind, on all versions of originals that were asked.

    ``fleiss_kappa`` and ``unanimous`` are about recognised or not, ``krippendorff_alpha`` about the answers themselves;
    ``bases`` counts where references came from. None where it is not defined.
    """

    task: str
    kind: str
    items: int
    votes: int
    recognised: Interval | None
    forced_recognised: Interval | None
    fleiss_kappa: Interval | None
    krippendorff_alpha: Interval | None
    unanimous: Interval | None
    bases: dict[str, int]
    annotators: tuple[AnnotatorReport, ...]

    def to_json(self) -> JSON:
        """The report as plain JSON; what is not a finite number is null."""
        return {"schema": SCHEMA, **finite_json(asdict(self))}


def agreement(store: Votes, kind: Kind | None = "human") -> list[AgreementReport]:
    """A report for each task that has votes of this kind; of all kinds together only where None asks for it."""
    votes = store.votes(kind)
    if not votes:
        raise StudyError(f"There are no {kind or 'such'} votes yet: invite annotators, or import votes.")
    items = store.items()
    people = {one.id: one for one in store.annotators()}
    by_id = {item.id: item for item in items}
    by_task: defaultdict[str, list[Vote]] = defaultdict(list)
    for vote in votes:
        by_task[by_id[vote.item].task].append(vote)
    return [_report(task, kind or "all", items, cast, people) for task, cast in sorted(by_task.items())]


def _report(
    task: str, kind: str, items: Iterable[Item], votes: Sequence[Vote], people: dict[str, Annotator]
) -> AgreementReport:
    judged = judge((item for item in items if item.task == task), votes)
    versions = [
        one for one in judged.values() if one.item.role in ("reconstruction", "shuffled") and not one.item.degraded
    ]
    voters = sorted({vote.annotator for vote in votes}, key=lambda one: (people[one].kind, people[one].seat))
    answers, hits = _matrices(versions, voters, votes)
    binary = tally(hits, 2) if versions else np.zeros((0, 2), int)
    named = tally(answers, int(answers.max()) + 1) if versions else binary
    reliability = dawid_skene(hits, 2).reliability if versions else np.full(len(voters), np.nan)
    return AgreementReport(
        task=task,
        kind=kind,
        items=len(versions),
        votes=int((hits != MISSING).sum()),
        recognised=_share(sum(one.recognised for one in versions), len(versions)),
        forced_recognised=_share(sum(one.forced_recognised for one in versions), len(versions)),
        fleiss_kappa=_where_defined(fleiss_kappa, binary),
        krippendorff_alpha=_where_defined(krippendorff_alpha, named),
        unanimous=_where_defined(unanimous, binary),
        bases=dict(Counter(one.reference.basis for one in versions)),
        annotators=tuple(
            _annotator(people[voter], [vote for vote in votes if vote.annotator == voter], judged, hits, place, trusted)
            for place, (voter, trusted) in enumerate(zip(voters, reliability.tolist(), strict=True))
        ),
    )


def _matrices(versions: Sequence[Judgement], voters: Sequence[str], votes: Iterable[Vote]) -> tuple[Array, Array]:
    """Answers as numbers, and whether each matched its reference: (versions, voters), ``MISSING`` where none is."""
    rows = {one.item.id: (row, one) for row, one in enumerate(versions)}
    columns = {voter: column for column, voter in enumerate(voters)}
    numbers: defaultdict[str | None, int] = defaultdict(lambda: len(numbers))
    answers = np.full((len(versions), len(voters)), MISSING)
    hits = answers.copy()
    for vote in votes:
        if vote.item in rows:
            row, judged = rows[vote.item]
            answers[row, columns[vote.annotator]] = numbers[vote.answer]
            hits[row, columns[vote.annotator]] = matches(judged.item, vote.answer, judged.reference)
    return answers, hits


def _annotator(
    person: Annotator, votes: list[Vote], judged: dict[str, Judgement], hits: Array, column: int, reliability: float
) -> AnnotatorReport:
    seen = hits[:, column][hits[:, column] != MISSING]
    by_role = _right_answers(votes, judged)
    on_versions = [vote for vote in votes if judged[vote.item].item.role not in ("original", "decoy")]
    originals, decoys = (_share(sum(by_role[role]), len(by_role[role])) for role in ("original", "decoy"))
    told = _detection(by_role, hits, column)
    seconds = [vote.seconds for vote in votes if vote.seconds is not None]
    median = statistics.median(seconds) if seconds else None
    return AnnotatorReport(
        name=person.name,
        kind=person.kind,
        votes=len(votes),
        recognition=_share(int(seen.sum()), len(seen)),
        none=_share(sum(vote.answer is None for vote in on_versions), len(on_versions)),
        d_prime=told[0],
        criterion=told[1],
        originals=originals,
        decoys=decoys,
        reliability=finite_or_none(reliability),
        median_seconds=median,
        revoked=person.revoked,
        flags=_flags(originals, decoys, median),
    )


def _right_answers(votes: Iterable[Vote], judged: dict[str, Judgement]) -> defaultdict[str, list[bool]]:
    """Whether each answer was right, by role: equal to the truth, or to what most say where nobody knows it."""
    by_role: defaultdict[str, list[bool]] = defaultdict(list)
    for vote in votes:
        item = judged[vote.item].item
        right = judged[vote.item].reference if item.truth is None else Reference(item.truth, "truth")
        if right.answer is not None:
            by_role[item.role].append(matches(item, vote.answer, right))
    return by_role


def _detection(
    by_role: defaultdict[str, list[bool]], hits: Array, column: int
) -> tuple[Interval | None, Interval | None]:
    """Sensitivity and bias: against decoys where there are any, else against the majority of the others."""
    if by_role["decoy"]:
        pairs, decoys = by_role["reconstruction"] + by_role["shuffled"], by_role["decoy"]
        counts = sum(pairs), len(pairs), len(decoys) - sum(decoys), len(decoys)
    else:
        mine = hits[:, column]
        others = np.delete(hits, column, axis=1)
        asked = (others != MISSING).sum(1)
        yes = 2 * (others == 1).sum(1)
        known = (mine != MISSING) & (asked > 0) & (yes != asked)  # a tie says nothing
        signal = known & (yes > asked)
        noise = known & (yes < asked)
        counts = int((mine[signal] == 1).sum()), int(signal.sum()), int((mine[noise] == 1).sum()), int(noise.sum())
    if not counts[1] or not counts[3]:
        return None, None
    told = detection(*counts)
    return told.d_prime, told.criterion


def _flags(originals: Interval | None, decoys: Interval | None, seconds: float | None) -> tuple[str, ...]:
    flags = [
        f"{round(share.mean * share.images)} of {share.images} {name} right"
        for name, share in (("originals", originals), ("decoys", decoys))
        if share is not None and share.high < ATTENTIVE
    ]
    if seconds is not None and seconds < QUICK:
        flags.append(f"answers in {seconds:.2g} s")
    return tuple(flags)


def _share(hits: int, of: int) -> Interval | None:
    return share_interval(hits, of) if of else None


def _where_defined(statistic: Any, counts: Array) -> Interval | None:
    """A statistic over items, or None where no item has two votes or all votes are one."""
    try:
        found: Interval = statistic(counts)
    except DataError:
        return None
    return None if np.isnan(found.mean) else found
