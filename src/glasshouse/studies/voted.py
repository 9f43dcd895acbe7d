"""Votes in studies beside metrics of what was voted on: do metrics rank models as people, or classifiers, do?"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from glasshouse import checks
from glasshouse.errors import DataError, WeightsError
from glasshouse.functional.agreement import MISSING
from glasshouse.functional.intervals import Array
from glasshouse.functional.threads import one_thread
from glasshouse.metrics import create
from glasshouse.metrics.features import FeatureMetric, features
from glasshouse.metrics.semsim import SemSim
from glasshouse.semsim import notes
from glasshouse.store import Kind
from glasshouse.studies.correlation import Correlation, correlation, is_the_votes
from glasshouse.studies.judgements import TESTERS, Guess, Judgements, kind_of, read
from glasshouse.studies.measuring import measured
from glasshouse.studies.runner import RunProgress
from glasshouse.types import JSON
from glasshouse.votes.judged import JUDGES, Judged

METRICS = ("mse", "psnr", "ssim", "lpips", "fid", "kid")
APART = ("weights", "labels", "conditions")  # facts of a case that its condition does not name
FEWEST_IMAGES = 10  # of a model, for a metric of sets


@dataclass(frozen=True, slots=True, eq=False)
class Voted:
    """What the votes of one kind say of metrics; ``missing`` are metrics without a value, and why.

    ``familiar`` are data sets among those voted on that the SemSim in the table learned from.
    """

    kind: Kind
    found: Correlation
    missing: Mapping[str, str]
    familiar: tuple[str, ...] = ()
    forced: bool = False

    def remarks(self) -> list[str]:
        """What a reader must know beside the numbers."""
        known = f"SemSim learned from {', '.join(self.familiar)}: there it has an advantage."
        return [
            *(['What people would have chosen stands in for their "none".'] if self.forced else []),
            *([known] if self.familiar else []),
            *(f"Without {name}: {why}." for name, why in self.missing.items()),
        ]

    def to_json(self) -> JSON:
        """What ``--json`` prints."""
        known = {"missing": dict(self.missing), "semsim_learned_from": list(self.familiar), "forced": self.forced}
        return self.found.to_json() | known


def correlate(
    studies: Sequence[Path],
    *,
    metrics: Sequence[str] = (),
    judge: str = "majority",
    judges: Kind | None = None,
    forced: bool = False,
    progress: RunProgress = lambda done, total: None,
) -> Voted:
    """Hold metrics against the votes in studies; without ``metrics``, the usual ones and the shipped SemSim.

    ``judges`` says whose votes: by default people's where there are any, else those of the classifiers that taught
    SemSim nothing. ``forced`` takes what they would have chosen beside a "none": how soon one gives up differs from
    person to person. Degraded copies, which no attack made, are left out.
    """
    checks.one_of("judge", judge, JUDGES)
    judgements = by_testers(studies, kind_of(studies, judges), forced=forced)
    people = judged_by(judgements, judge)
    missing: dict[str, str] = {}
    with one_thread():
        values = columns(judgements, people, metrics or (*METRICS, "semsim"), missing, progress)
    refuse_none(values, missing)
    source = ", ".join(map(str, studies))
    found = correlation(
        people,
        values,
        source=source,
        judge=judge,
        images=len(judgements.guesses),
        leaks={name: create(name).leaks_when for name in values},
    )
    return Voted(judgements.kind, found, missing, _familiar(judgements, values), forced)


def _familiar(judgements: Judgements, names: Iterable[str]) -> tuple[str, ...]:
    """The data sets that a SemSim among some metrics learned from, at whatever size."""
    taught = {
        _part(name)
        for metric in map(create, names)
        if isinstance(metric, SemSim)
        for name in notes(metric.path).get("datasets", "").split(", ")
    }
    return tuple(name for name in judgements.datasets if _part(name) in taught)


def _part(dataset: str) -> tuple[str, ...]:
    """Which images a data set's SPEC means, however it shows them: its name and its part, the test part by default."""
    name, _, settings = dataset.partition(":")
    return name, *([one for one in settings.split(",") if one.startswith("split=")] or ["split=test"])


def by_testers(studies: Sequence[Path], kind: Kind, *, forced: bool = False) -> Judgements:
    """What attacks made, with the votes of one kind that may test: of classifiers those that never teach."""
    found = read(studies, kind, None if kind == "human" else TESTERS, forced=forced).only(lambda guess: guess.attacked)
    silent = [str(study) for study in studies if all(guess.study != study for guess in found.guesses)]
    if silent:
        raise DataError(
            f"There are no {kind} votes on reconstructions in {', '.join(silent)} that another of the studies does not "
            "hold already: leave it out, or collect votes of that kind; classifiers that have been changed since vote "
            "anew with 'glasshouse semsim judge'."
        )
    return found


def judged_by(judgements: Judgements, judge: str) -> Judged:
    """Judgements of a study in the form in which tables of votes are held against metrics."""
    voters = {name: column for column, name in enumerate(judgements.voters)}
    hits = np.full((len(judgements.guesses), len(voters)), MISSING)
    for row, guess in enumerate(judgements.guesses):
        for name, hit in guess.hits.items():
            hits[row, voters[name]] = hit
    labels = labels_of(judgements)
    models = {one: number for number, one in enumerate(dict.fromkeys(labels))}
    training = {one: guess.training or one for one, guess in zip(labels, judgements.guesses, strict=True)}
    runs = {one: number for number, one in enumerate(dict.fromkeys(training.values()))}
    return Judged(
        rows=np.arange(len(labels)),
        models=tuple(models),
        model=np.array([models[one] for one in labels]),
        original=judgements.owners.numpy(),
        hits=hits,
        chances=JUDGES[judge](hits),
        runs=np.array([runs[training[one]] for one in models]),
    )


def label(judgements: Judgements, guess: Guess) -> str:
    """What is ranked: a condition of a data set."""
    return f"{judgements.dataset_of(guess)}: {guess.condition}"


def labels_of(judgements: Judgements) -> list[str]:
    """What is ranked, for each guess; where one condition stands for several networks or threats, with what differs."""
    named = [label(judgements, guess) for guess in judgements.guesses]
    apart = [{fact: json.dumps(guess.facts.get(fact)) for fact in APART} for guess in judgements.guesses]
    seen = {(name, *one) for name, facts in zip(named, apart, strict=True) for one in facts.items()}
    ways = Counter((name, fact) for name, fact, _ in seen)
    return [
        " / ".join([name, *(f"{fact} {value}" for fact, value in facts.items() if ways[name, fact] > 1)])
        for name, facts in zip(named, apart, strict=True)
    ]


def columns(
    judgements: Judgements,
    people: Judged,
    metrics: Sequence[str],
    missing: dict[str, str],
    progress: RunProgress = lambda done, total: None,
) -> dict[str, Array]:
    """Values (K,) of the metrics that rank models; a metric of sets has that of its model at every image.

    Why another one does not is written into ``missing``.
    """
    sets = Sets(judgements, people)
    found = {}
    for number, name in enumerate(metrics):
        progress(number, len(metrics))
        metric = create(name)
        try:
            column = sets.values(metric) if isinstance(metric, FeatureMetric) else _of_images(judgements, name)
        except WeightsError as error:
            missing[name] = str(error)
            continue
        if tells(name, column, people, missing):
            found[name] = column
    progress(len(metrics), len(metrics))
    return found


def refuse_none(values: Mapping[str, Array], missing: Mapping[str, str]) -> None:
    """Raise where no metric has values, with the reason of each."""
    if not values:
        raise DataError(f"No metric has a value: {'; '.join(f'{name} is {why}' for name, why in missing.items())}.")


def tells(name: str, column: Array, people: Judged, missing: dict[str, str]) -> bool:
    """Whether a metric differs between models at all; one that does not cannot be held against votes."""
    if np.isposinf(column).any():
        missing[name] = "infinite, for a reconstruction equals its original"
    elif not np.isfinite(column).all():
        missing[name] = "not defined for some of the images, or some of the models have too few"
    elif np.ptp(people.per_model(column)) <= 1e-9:
        missing[name] = "the same for every model"
    elif is_the_votes(column, people):
        missing[name] = "what those who test said themselves"
    return name not in missing


def _of_images(judgements: Judgements, name: str) -> Array:
    """Values of a metric; a perfect reconstruction, whose value has no mean with others, counts as the best of them."""
    found = np.asarray(measured(judgements, name).double().numpy())
    finite = found[np.isfinite(found)]
    return np.where(np.isposinf(found), finite.max(), found) if len(finite) else found


@dataclass(eq=False)
class Sets:
    """The reconstructions of each model as a set; every picture is looked at once, for all metrics and models."""

    judgements: Judgements
    people: Judged

    def values(self, metric: FeatureMetric) -> Array:
        """A metric of sets for each model, at each of its images; NaN where a model has too few.

        Values at equal counts may be compared also where a metric wants more images to mean something by itself.
        """
        sizes = np.bincount(self.people.model)
        least = FEWEST_IMAGES if np.ptp(sizes) == 0 else metric.fewest
        found = np.full(len(self.people.model), np.nan)
        for number in np.flatnonzero(sizes >= least):
            inside = self.people.model == number
            truths, guesses = (part[inside] for part in self.features)
            found[inside] = metric.distance(truths, guesses)
        return found

    @cached_property
    def features(self) -> tuple[Tensor, Tensor]:
        """Those of the original of every guess, and of the guess itself, (K, F) each."""
        originals = _looked_at([one.picture for one in self.judgements.originals])
        return originals[self.judgements.owners], _looked_at([one.picture for one in self.judgements.guesses])


def _looked_at(pictures: Sequence[Tensor]) -> Tensor:
    """Features of pictures that may differ in size."""
    alike = groupby(pictures, key=lambda picture: picture.shape)
    return torch.cat([features(torch.stack(list(some))) for _, some in alike])
