"""The tables of a study: typed rows with intervals and threat cards, and the same as JSON."""

from __future__ import annotations

import dataclasses
import json
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from glasshouse import attacks
from glasshouse.files import write_atomic
from glasshouse.functional.intervals import mean_interval, share_interval
from glasshouse.metrics import Metric, SetMetric, create
from glasshouse.store import CaseRecord, ImageRecord, ReconstructionRecord
from glasshouse.studies.case import Case
from glasshouse.studies.plan import Plan
from glasshouse.studies.scoring import FLOOR, Measures, Scores, identified_name, score_name, set_value, shows
from glasshouse.studies.study import RESULT_FILE, Study
from glasshouse.studies.subjects import Subject
from glasshouse.types import JSON, Interval, Threat, finite_or_none
from glasshouse.versions import versions

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Setup:
    """What a row is about."""

    dataset: str
    model: str
    defense: str
    attack: str
    seed: int
    threat: Threat
    defense_spec: str
    attack_spec: str


@dataclass(frozen=True, slots=True)
class Row:
    """One metric of one setup: mean and bootstrap 95 % interval over images, or the reason for none."""

    setup: Setup
    metric: str
    value: Interval | None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class PerImage:
    """One metric of one reconstruction; paths are relative to the study's directory."""

    setup: Setup
    metric: str
    image: int
    value: float | None
    truth: str
    guess: str


@dataclass(frozen=True, slots=True)
class Failed:
    """A case that could not be finished, and why."""

    setup: Setup
    images: tuple[int, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Identified:
    """How many reconstructions point to their original among a hundred others and clearly beat the floor.

    ``told`` is the share of those that point to it, whatever they look like: one in 101 by chance.
    """

    setup: Setup
    share: Interval
    images: tuple[int, ...]
    told: Interval

    def to_json(self) -> JSON:
        """As plain JSON, without the images."""
        return {**setup_json(self.setup), **interval_json(self.share), "told": interval_json(self.told)}


@dataclass(frozen=True, slots=True)
class Spent:
    """What a setup costs: bytes of a message that the client shares, and seconds of the attack for each image."""

    setup: Setup
    message_bytes: Interval | None
    seconds: Interval | None


@dataclass(frozen=True, eq=False)
class AuditResult:
    """All that a study found."""

    directory: Path
    plan: Plan
    images: tuple[ImageRecord, ...]
    rows: tuple[Row, ...]
    per_image: tuple[PerImage, ...]
    floor: tuple[Row, ...]
    identified: tuple[Identified, ...]
    failures: tuple[Failed, ...]
    pending: int
    judges: tuple[str, ...] = ()
    gallery: str = ""
    terms: str = ""
    skipped: tuple[str, ...] = ()
    choices: JSON = field(default_factory=dict)
    seconds: float = 0.0
    versions: dict[str, str] = field(default_factory=versions)

    @property
    def setups(self) -> tuple[Setup, ...]:
        """The setups in the order of the plan."""
        return tuple(dict.fromkeys(row.setup for row in self.rows))

    def to_json(self) -> JSON:
        """The machine-readable results: ``audit.json``."""
        return {
            "schema": SCHEMA,
            "rows": [row_json(row) for row in self.rows],
            "images": [dataclasses.asdict(image) for image in self.images],
            "per_image": [
                {**setup_json(one.setup), "metric": one.metric, "image": one.image}
                | {"value": finite_or_none(one.value), "truth": one.truth, "guess": one.guess}
                for one in self.per_image
            ],
            "floor": [row_json(row) for row in self.floor],
            "identified": [{**one.to_json(), "which": list(one.images)} for one in self.identified],
            "failures": [
                {**setup_json(one.setup), "images": list(one.images), "reason": one.reason} for one in self.failures
            ],
            "pending": self.pending,
            "choices": self.choices,
            "judges": list(self.judges),
            "gallery": self.gallery,
            "skipped": list(self.skipped),
            "settings": {**dataclasses.asdict(self.plan), "terms": self.terms, "versions": self.versions},
        }

    def save(self) -> Path:
        """Write ``audit.json`` into the study's directory."""
        path = self.directory / RESULT_FILE
        write_atomic(path, json.dumps(self.to_json(), indent=1, allow_nan=False).encode())
        return path

    def _repr_html_(self) -> str:
        """Show the result in a notebook."""
        from html import escape

        head = "<tr><th>defense<th>attack<th>metric<th>mean<th>95 % interval<th>images</tr>"
        body = "".join(
            f"<tr><td>{escape(row.setup.defense)}<td>{escape(row.setup.attack)}<td>{escape(row.metric)}"
            + (
                f"<td>{row.value.mean:.4g}<td>{row.value.low:.4g} to {row.value.high:.4g}<td>{row.value.images}</tr>"
                if row.value
                else f"<td colspan=3>n/a: {escape(row.reason or '')}</tr>"
            )
            for row in self.rows
        )
        return f"<table>{head}{body}</table>"


def collect(plan: Plan, study: Study, measures: Measures) -> AuditResult:
    """Gather the tables of an audit, which has one subject, from its store."""
    (subject,) = study.subjects
    table = Table.of(study, subject, measures)
    return AuditResult(
        directory=study.directory,
        plan=plan,
        images=tuple(study.store.images()),
        rows=tuple(table.rows()),
        per_image=tuple(table.per_image()),
        floor=tuple(table.floor()),
        identified=tuple(table.identified()),
        failures=tuple(table.failures()),
        pending=table.pending(),
        judges=tuple(measures.judges),
        gallery=subject.gallery_origin,
        terms=subject.terms,
        skipped=subject.skipped,
        choices=study.choices.to_json(),
        seconds=table.seconds(),
    )


@dataclass(frozen=True, eq=False)
class Table:
    """Joins cases, pictures and scores of one subject of a study."""

    study: Study
    subject: Subject
    measures: Measures
    groups: dict[Setup, list[Case]]
    records: dict[str, CaseRecord]
    pictures: dict[str, list[ReconstructionRecord]]
    scores: Scores

    @classmethod
    def of(cls, study: Study, subject: Subject, measures: Measures) -> Table:
        """Read all that the store knows of a subject."""
        records = {record.key: record for record in study.store.cases()}
        by_kind: dict[tuple[object, ...], list[Case]] = defaultdict(list)
        for case in study.cases:
            if case.dataset == subject.dataset and case.key() in records:
                by_kind[_kind(case)].append(case)
        groups = {_setup(cases, records): cases for cases in by_kind.values()}
        pictures: dict[str, list[ReconstructionRecord]] = defaultdict(list)
        for one in study.store.reconstructions():
            pictures[one.case_key].append(one)
        return cls(study, subject, measures, groups, records, pictures, study.store.scores())

    @property
    def planned(self) -> list[CaseRecord]:
        """What is known of every case."""
        return [self.records[case.key()] for cases in self.groups.values() for case in cases]

    def pending(self) -> int:
        """How many cases are still to be done."""
        return sum(record.state == "pending" for record in self.planned)

    def seconds(self) -> float:
        """How long the finished cases took together."""
        return float(sum(record.outcome.get("seconds", 0.0) for record in self.planned))

    def score(self, key: str, place: int, metric: Metric | None) -> float | None:
        """A stored score of a metric, if there is one."""
        return None if metric is None else self.scores.get((key, place, score_name(metric)))

    def found(self, setup: Setup) -> list[ReconstructionRecord]:
        """The reconstructions of a setup in the order of the images."""
        found = [one for case in self.groups[setup] for one in self.pictures.get(case.key(), ())]
        return sorted(found, key=lambda one: one.place)

    def rows(self) -> list[Row]:
        """One row for every setup and metric of the plan."""
        return [self._row(setup, metric) for setup in self.groups for metric in self.measures.asked]

    def _row(self, setup: Setup, metric: str) -> Row:
        found = self.found(setup)
        if not found:
            return Row(setup, metric, None, "no reconstruction was finished")
        if isinstance(create(metric), SetMetric):
            value = set_value(self.study, self.subject, metric, found)
            if isinstance(value, str):
                return Row(setup, metric, None, value)
            return Row(setup, metric, Interval(value, math.nan, math.nan, len(found)))
        values = [self.score(one.case_key, one.place, self.measures.usable.get(metric)) for one in found]
        numbers = [value for value in values if value is not None]
        if not numbers:
            return Row(setup, metric, None, self.measures.missing.get(metric, "not scored yet"))
        return Row(setup, metric, mean_interval(numbers), _identical(numbers))

    def per_image(self) -> list[PerImage]:
        """One entry for every reconstruction and metric of single images."""
        files = {image.place: image.file for image in self.study.store.images()}
        return [
            PerImage(
                setup,
                metric,
                one.place,
                self.score(one.case_key, one.place, self.measures.usable[metric]),
                files[one.place],
                one.file,
            )
            for setup in self.groups
            for metric in self.measures.usable
            for one in self.found(setup)
        ]

    def floor(self) -> list[Row]:
        """What the truth's own mean colour would score: the guess a real attack must beat."""
        nothing = Threat("none", "none", "none", None, 1, 0, 0, "none", "none", None)
        seed = next((setup.seed for setup in self.groups), 0)
        setup = Setup(self.subject.dataset, "none", "none", "mean color", seed, nothing, "none", "none")
        rows = []
        for metric in self.measures.usable:
            values = [self.score(FLOOR, place, self.measures.usable[metric]) for place in self.subject.places]
            numbers = [value for value in values if value is not None]
            if numbers:
                rows.append(Row(setup, metric, mean_interval(numbers)))
        return rows

    def identified(self) -> list[Identified]:
        """For every setup, which reconstructions show their original."""
        answer = []
        told_name = identified_name(self.subject.gallery)
        for setup in self.groups:
            found = self.found(setup)
            seen = [one.place for one in found if shows(self.scores, self.measures.judges, one, told_name)]
            told = sum(bool(self.scores.get((one.case_key, one.place, told_name))) for one in found)
            if found:
                shares = (share_interval(count, len(found)) for count in (len(seen), told))
                answer.append(Identified(setup, next(shares), tuple(seen), next(shares)))
        return answer

    def spent(self) -> list[Spent]:
        """What every setup costs, from its finished cases."""
        return [Spent(setup, *self._spent(cases)) for setup, cases in self.groups.items()]

    def _spent(self, cases: Sequence[Case]) -> tuple[Interval | None, ...]:
        done = [(case, one) for case in cases if (one := self.records[case.key()]).state == "done"]
        sizes = [one.outcome["message_bytes"] for _, one in done if "message_bytes" in one.outcome]
        seconds = [one.outcome["seconds"] / len(case.images) for case, one in done]
        return tuple(mean_interval(values) if values else None for values in (sizes, seconds))

    def failures(self) -> list[Failed]:
        """Every case that failed."""
        return [
            Failed(setup, case.images, self.records[case.key()].reason or "unknown")
            for setup, cases in self.groups.items()
            for case in cases
            if self.records[case.key()].state == "failed"
        ]


def _kind(case: Case) -> tuple[object, ...]:
    """What cases of one row share; a last batch that is smaller belongs to it too, and its threat card says so."""
    return case.model, case.defense, case.attack, case.round, case.batchnorm, case.seed


def _setup(cases: Sequence[Case], records: dict[str, CaseRecord]) -> Setup:
    """The setup that some cases share."""
    case = cases[0]
    threat = threat_card(cases, [records[one.key()].outcome for one in cases])
    return Setup(
        case.dataset, case.model, case.defense, case.attack, case.seed, threat, case.defense_spec, case.attack_spec
    )


def threat_card(cases: Sequence[Case], outcomes: Sequence[JSON]) -> Threat:
    """The conditions under which some cases were attacked; what differs between them is averaged."""
    case = cases[0]
    sizes = [len(one.images) for one in cases]
    attack = attacks.create(case.attack_spec)
    use = attack.labels_used
    conditions = case.conditions
    return Threat(
        batchnorm=case.batchnorm if case.has_batchnorm else "none",
        statistics=conditions.known_statistics(case.batchnorm) if case.has_batchnorm else "none",
        labels=case.labels if use == "given or recovered" else use,
        labels_right=_mean(outcomes, "labels_right"),
        batch=max(sizes),
        last_batch=min(sizes) if min(sizes) < max(sizes) else None,
        local_steps=conditions.steps(max(sizes)),
        clients=1,
        round=case.round,
        tuning="tuned" if case.tuned else "fixed settings",
        snr_db=_mean(outcomes, "snr_db"),
        adversary=attack.adversary,
        observations=conditions.observations,
        layers=" ".join(conditions.layers) or "all",
    )


def _identical(values: Sequence[float]) -> str | None:
    """How many pictures equal their originals to the bit, and the mean of the others: PSNR has no mean over both."""
    others = [value for value in values if math.isfinite(value)]
    if len(others) == len(values):
        return None
    rest = f", the others {sum(others) / len(others):.3g}" if others else ""
    return f"{len(values) - len(others)} of {len(values)} identical{rest}"


def _mean(outcomes: Sequence[JSON], fact: str) -> float | None:
    """The mean of a fact over the cases that know it."""
    known = [outcome[fact] for outcome in outcomes if outcome.get(fact) is not None]
    return sum(known) / len(known) if known else None


def setup_json(setup: Setup) -> JSON:
    """A setup as plain JSON."""
    return {
        "dataset": setup.dataset,
        "model": setup.model,
        "defense": setup.defense,
        "attack": setup.attack,
        "defense_spec": setup.defense_spec,
        "attack_spec": setup.attack_spec,
        "seed": setup.seed,
        "threat": dataclasses.asdict(setup.threat),
    }


def interval_json(value: Interval | None) -> dict[str, Any]:
    """An interval as plain JSON; no numbers where there is none."""
    if value is None:
        return {"mean": None, "low": None, "high": None, "images": 0}
    ends = {name: finite_or_none(getattr(value, name)) for name in ("mean", "low", "high")}
    return {**ends, "images": value.images}


def row_json(row: Row) -> JSON:
    """A row as plain JSON."""
    return {**setup_json(row.setup), "metric": row.metric, **interval_json(row.value), "reason": row.reason}
