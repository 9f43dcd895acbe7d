"""How well metrics agree with people, who rank models and tell images apart by what they recognise."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from glasshouse.errors import DataError
from glasshouse.functional.agreement import MISSING, fleiss_kappa, tally
from glasshouse.functional.intervals import Array, bootstrap_interval
from glasshouse.functional.ranking import Area, area, kendall, kendall_p, pair_accuracy, spearman, spearman_p
from glasshouse.studies.people import Ceiling, Difficulty, Recognition, ceiling, difficulty, recognition
from glasshouse.types import JSON, Interval, finite_or_none, flat
from glasshouse.votes.judged import Judged, direction, judged, metric_columns
from glasshouse.votes.table import read_votes

if TYPE_CHECKING:
    from glasshouse.metrics.base import Leaks

SCHEMA = 1
FEWEST_MODELS = 3
MOST_MODELS = 500
ROUNDING = 1e-12  # relative: means that differ by less are of one value


@dataclass(frozen=True, slots=True)
class MetricResult:
    """One metric against people.

    ``means`` are its means per model. ``rho`` and ``tau`` are signed; areas and ``resolved`` (accuracy on the pairs of
    models that votes resolve) count in the direction in which the metric leaks. ``known`` is False where that direction
    was not known and high values were taken to leak.
    """

    name: str
    leaks_when: Leaks
    known: bool
    means: tuple[float, ...]
    rho: Interval
    tau: Interval
    p_rho: float
    p_tau: float
    auc: Interval | None
    auc_within_original: Interval | None
    auc_within_model: Interval | None
    resolved: float

    def to_json(self) -> JSON:
        """Flat, with ``_low`` and ``_high`` beside each value; ``p`` is that of tau."""
        found: JSON = {"leaks_when": self.leaks_when, "direction_known": self.known}
        for name in ("rho", "tau", "auc", "auc_within_original", "auc_within_model"):
            found |= flat(name, getattr(self, name))
        return found | {"p": self.p_tau, "p_rho": self.p_rho, "resolved_accuracy": finite_or_none(self.resolved)}


@dataclass(frozen=True, slots=True)
class Difference:
    """By how much the first metric agrees better with people than the second, each in its own direction."""

    first: str
    second: str
    rho: Interval
    tau: Interval
    auc_within_original: Interval | None

    def to_json(self) -> JSON:
        """Flat, with ``_low`` and ``_high`` beside each value."""
        found: JSON = {"first": self.first, "second": self.second}
        for name in ("rho", "tau", "auc_within_original"):
            found |= flat(name, getattr(self, name))
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Correlation:
    """What votes say of metrics, and of the people themselves."""

    judge: str
    images: int
    without_votes: int
    annotators: int
    recognition: Recognition
    metrics: tuple[MetricResult, ...]
    differences: tuple[Difference, ...]
    ceiling: Ceiling
    difficulty: Difficulty
    kappa: Interval | None

    @property
    def trainings(self) -> int:
        """How many trainings stand behind the models: what intervals of rho and tau are over."""
        return self.metrics[0].tau.images

    def between(self, first: MetricResult, second: MetricResult) -> tuple[float, float]:
        """Signed rho and tau of two metrics over the models."""
        values = np.array(first.means), np.array(second.means), np.ones((1, len(first.means)), np.int32)
        return float(spearman(*values)[0]), float(kendall(*values)[0])

    def to_json(self) -> JSON:
        """What ``--json`` prints; a value that does not exist is null."""
        models = self.recognition.models
        return {
            "schema": SCHEMA,
            "judge": self.judge,
            "images": self.images,
            "images_without_votes": self.without_votes,
            "annotators": self.annotators,
            "trainings": self.trainings,
            "metrics": {
                one.name: one.to_json() | {"means": dict(zip(models, one.means, strict=True))} for one in self.metrics
            },
            "differences": [one.to_json() for one in self.differences],
            "between_metrics": {
                one.name: {
                    two.name: dict(zip(("rho", "tau"), self.between(one, two), strict=True)) for two in self.metrics
                }
                for one in self.metrics
            },
            **self.recognition.to_json(),
            **flat("kappa", self.kappa),
            **self.ceiling.to_json(),
            **self.difficulty.to_json(),
        }


def correlate(path: Path, *, metrics: Sequence[str] = (), judge: str = "majority") -> Correlation:
    """Hold the metrics of a table against its votes; without ``metrics``, every known one that it has."""
    table = read_votes(path)
    columns = metric_columns(table, metrics)
    people = judged(table, judge)
    values = {name: table.numbers(name)[people.rows] for name in columns}
    return correlation(people, values, source=str(path), judge=judge, images=len(table.truth))


def correlation(
    people: Judged,
    values: Mapping[str, Array],
    *,
    source: str,
    judge: str,
    images: int,
    leaks: Mapping[str, Leaks] | None = None,
) -> Correlation:
    """Hold values (N,) of metrics on the judged images against the votes on them.

    ``source`` is what errors call the votes, ``images`` how many there are with those that nobody voted on. ``leaks``
    are the directions of metrics that say so themselves; those of others are known by name, or taken as high.
    """
    models = len(people.models)
    if not FEWEST_MODELS <= models <= MOST_MODELS:
        raise DataError(
            f"{source} has votes on {models} model{'s' * (models != 1)}: to rank models takes {FEWEST_MODELS} to "
            f"{MOST_MODELS} of them, named in column 'config' of a table, or attacked in a study."
        )
    seen = recognition(people)
    if len(set(seen.shares)) == 1:
        raise DataError(f"{source}: every model is recognised equally often ({seen.shares[0]:.3f}): nothing to rank.")
    measured = [
        _Measured.of(source, people, name, one, (leaks or {}).get(name) or direction(name))
        for name, one in values.items()
    ]
    counts = tally(people.hits, 2)
    return Correlation(
        judge=judge,
        images=len(people.rows),
        without_votes=images - len(people.rows),
        annotators=people.hits.shape[1],
        recognition=seen,
        metrics=tuple(_against_people(one, people, seen) for one in measured),
        differences=tuple(_difference(one, two, people, seen) for one, two in combinations(measured, 2)),
        ceiling=ceiling(people),
        difficulty=difficulty(people),
        kappa=fleiss_kappa(counts, people.original) if (counts.sum(1) > 1).any() else None,
    )


def is_the_votes(values: Array, people: Judged) -> bool:
    """Whether values of images are the shares of those who recognised them: an answer, not a metric."""
    return np.allclose(values, (people.hits == 1).sum(1) / (people.hits != MISSING).sum(1), atol=1e-6)


@dataclass(frozen=True, slots=True, eq=False)
class _Measured:
    """A metric's values on images and models, turned so that high ones leak."""

    name: str
    leaks_when: Leaks
    known: bool
    per_image: Array
    per_model: Array
    within_original: Area | None

    @property
    def sign(self) -> int:
        return 1 if self.leaks_when == "high" else -1

    @classmethod
    def of(cls, source: str, people: Judged, name: str, values: Array, known: Leaks | None) -> _Measured:
        if is_the_votes(values, people):
            raise DataError(f"Column '{name}' of {source} is the share of votes itself: an answer, not a metric.")
        means = people.per_model(values)
        if np.ptp(means) <= ROUNDING * np.abs(means).max():
            raise DataError(
                f"Column '{name}' of {source} is {means[0]:g} for every model: it cannot rank them; "
                "name others with --metrics."
            )
        leaks_when = known or "high"
        turned = values if leaks_when == "high" else -values
        within = area(turned, people.chances, people.original, people.original)
        return cls(name, leaks_when, known is not None, turned, people.per_model(turned), within)


def _against_people(metric: _Measured, people: Judged, seen: Recognition) -> MetricResult:
    means, shares = metric.sign * metric.per_model, np.array(seen.shares)
    alone = [people.per_cluster(values) for values in (means, shares)]
    pooled = area(metric.per_image, people.chances, np.zeros_like(people.model), people.original)
    # one value for each model, as metrics of sets have: it tells no images of a model apart
    one_each = np.allclose(metric.per_image, metric.per_model[people.model], rtol=ROUNDING, atol=0)
    in_model = None if one_each else area(metric.per_image, people.chances, people.model, people.original)
    within = metric.within_original
    return MetricResult(
        name=metric.name,
        leaks_when=metric.leaks_when,
        known=metric.known,
        means=tuple(means.tolist()),
        rho=_interval(people, lambda drawn: spearman(means, shares, drawn)),
        tau=_interval(people, lambda drawn: kendall(means, shares, drawn)),
        p_rho=spearman_p(*alone),
        p_tau=kendall_p(*alone),
        auc=None if pooled is None else pooled.interval,
        auc_within_original=None if within is None else within.interval,
        auc_within_model=None if in_model is None else in_model.interval,
        resolved=pair_accuracy(metric.per_model, shares, seen.resolved),
    )


def _interval(people: Judged, statistic: Callable[[Array], Array]) -> Interval:
    """A statistic over models with its 95 % interval; whole trainings are drawn, with all their checkpoints."""
    clusters = people.clusters
    return bootstrap_interval(lambda drawn: statistic(drawn[:, clusters]), int(clusters.max()) + 1)


def _difference(first: _Measured, second: _Measured, people: Judged, seen: Recognition) -> Difference:
    one, two, shares = first.per_model, second.per_model, np.array(seen.shares)
    areas = first.within_original, second.within_original
    return Difference(
        first=first.name,
        second=second.name,
        rho=_interval(people, lambda drawn: spearman(one, shares, drawn) - spearman(two, shares, drawn)),
        tau=_interval(people, lambda drawn: kendall(one, shares, drawn) - kendall(two, shares, drawn)),
        auc_within_original=None if areas[0] is None or areas[1] is None else areas[0].less(areas[1]),
    )
