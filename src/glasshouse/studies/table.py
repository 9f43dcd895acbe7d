"""What the store knows about one subject, gathered into rows."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from glasshouse import attacks
from glasshouse.functional.intervals import mean_interval, share_interval
from glasshouse.metrics import Metric, SetMetric, create
from glasshouse.store import CaseRecord, ReconstructionRecord
from glasshouse.studies.case import Case
from glasshouse.studies.rows import FIXED, TUNED, UNTUNABLE, Failed, Identified, PerImage, Row, Setup, Spent
from glasshouse.studies.scoring import FLOOR, Measures, Scores, identified_name, score_name, set_value, shows
from glasshouse.studies.study import Study
from glasshouse.studies.subjects import Subject
from glasshouse.types import JSON, Interval, Threat


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
            value = set_value(self.study, self.subject, metric, found, self.scores)
            if isinstance(value, str):
                return Row(setup, metric, None, value)
            return Row(setup, metric, Interval(value, math.nan, math.nan, len(found)))
        usable = self.measures.usable.get(metric)
        values = [self.score(one.case_key, one.place, usable) for one in found]
        numbers = [value for value in values if value is not None]
        if usable is None or not numbers:
            return Row(setup, metric, None, self.measures.missing.get(metric, "not scored yet"))
        return Row(setup, metric, usable.mean(numbers), _identical(numbers))

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
        for name, metric in self.measures.usable.items():
            values = [self.score(FLOOR, place, metric) for place in self.subject.places]
            numbers = [value for value in values if value is not None]
            if numbers:
                rows.append(Row(setup, name, metric.mean(numbers)))
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
        return _cost(sizes), _cost(list(dict.fromkeys(seconds)))  # of one task all cases have the same seconds

    def failures(self) -> list[Failed]:
        """Every case that failed."""
        return [
            Failed(setup, case.images, self.records[case.key()].reason or "unknown")
            for setup, cases in self.groups.items()
            for case in cases
            if self.records[case.key()].state == "failed"
        ]


def _cost(values: Sequence[float]) -> Interval | None:
    """The mean of what is never negative, if there is any."""
    return mean_interval(values, within=(0, math.inf)) if values else None


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
    conditions = case.conditions
    return Threat(
        batchnorm=batchnorm_known(case.batchnorm, case.has_batchnorm),
        statistics=conditions.known_statistics(case.batchnorm) if case.has_batchnorm else "none",
        labels=labels_known(case.labels, case.attack_spec),
        labels_right=_mean(outcomes, "labels_right"),
        batch=max(sizes),
        last_batch=min(sizes) if min(sizes) < max(sizes) else None,
        local_steps=conditions.steps(max(sizes)),
        clients=1,
        round=case.round,
        tuning=TUNED if case.tuned else FIXED if attack.grid else UNTUNABLE,
        snr_db=_mean(outcomes, "snr_db"),
        adversary=attack.adversary,
        observations=conditions.observations,
        layers=" ".join(conditions.layers) or "all",
    )


def batchnorm_known(mode: str, has_batchnorm: bool) -> str:
    """The mode of batch norm, where a network has any."""
    return mode if has_batchnorm else "none"


@cache
def labels_known(asked: str, attack_spec: str) -> str:
    """Where an attack has labels from: what the plan says, unless it uses none or always others."""
    use = attacks.create(attack_spec).labels_used
    return asked if use == "given or recovered" else use


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
