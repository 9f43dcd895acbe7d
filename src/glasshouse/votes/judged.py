"""Votes turned into judgements: how surely each reconstruction was recognised, and which columns may be metrics."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from glasshouse import checks
from glasshouse.errors import DataError, SettingError, UnknownNameError
from glasshouse.functional.agreement import MISSING, dawid_skene, tally
from glasshouse.functional.intervals import Array
from glasshouse.votes.table import ANNOTATOR, MODEL, NO_VOTE, ORIGINAL, VoteTable

ROUNDING = 1e-12  # of the largest mean: those that differ by less are equal

#: Metrics whose columns are found by themselves, and whether their high or their low values leak.
LEAKS_WHEN: dict[str, Literal["high", "low"]] = {
    "mse": "low",
    "psnr": "high",
    "ssim": "high",
    "lpips": "low",
    "fid": "low",
    "kid": "low",
    "semsim": "low",
    "dreamsim": "low",
    "classifier": "high",
}
#: Columns that would be no test of a metric, and why.
REFUSED = (
    (re.compile(re.escape(MODEL)), "it names the model"),
    (ORIGINAL, "it names the original"),
    (re.compile(r"gt_.*"), "it is the truth that votes are held against"),
    (ANNOTATOR, "it is an annotator's vote"),
    (re.compile(r"annot.*"), "it says something of annotators, not of images"),
    (re.compile(r"frac_.*|(un)?recogni[sz]ed.*"), "it is derived from the votes: an answer, not a metric"),
)


def majority(hits: Array) -> Array:
    """1 where more than half of all votes on an image equal the truth, else 0."""
    counts = tally(hits, 2)
    return np.asarray(2 * counts[:, 1] > counts.sum(1), dtype=np.float64)


def mean_share(hits: Array) -> Array:
    """The share of an image's votes that equal the truth."""
    counts = tally(hits, 2)
    return np.asarray(counts[:, 1] / counts.sum(1))


def by_reliability(hits: Array) -> Array:
    """The chance that an image is recognisable, annotators weighed by their reliability (Dawid and Skene 1979)."""
    return np.asarray(dawid_skene(hits, 2).posterior[:, 1])


#: How (N, annotators) votes, 1 where they equal the truth, become (N,) chances that an image is recognised.
JUDGES: dict[str, Callable[[Array], Array]] = {
    "majority": majority,
    "mean": mean_share,
    "dawid-skene": by_reliability,
}


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """The images that have votes: numbers of their models and originals (N,), votes and judgement.

    ``hits`` (N, annotators) are 1 where a vote equals the truth, 0 where not, MISSING where there is none; ``chances``
    (N,) in [0, 1] are the judge's. ``rows`` (N,) say where in the table an image stands. ``runs`` (models,) number the
    trainings that models come from: checkpoints of one are no independent models. None where each has its own.
    """

    rows: Array
    models: tuple[str, ...]
    model: Array
    original: Array
    hits: Array
    chances: Array
    runs: Array | None = None

    @property
    def clusters(self) -> Array:
        """The number of each model's training, (models,)."""
        return np.arange(len(self.models)) if self.runs is None else self.runs

    def per_cluster(self, values: Array) -> Array:
        """The mean of (models,) values for each training."""
        return _means(self.clusters, values)

    def per_model(self, values: Array) -> Array:
        """The mean of (N,) values for each model."""
        return _means(self.model, values)


def _means(group: Array, values: Array) -> Array:
    """The mean of (N,) values for each group; those that only rounding tells apart are equal, and so tie in ranks."""
    found = np.asarray(np.bincount(group, values) / np.bincount(group))
    order = np.argsort(found, kind="stable")
    rising = found[order]
    larger = np.append(True, np.diff(rising) > ROUNDING * np.abs(found).max())
    found[order] = rising[np.maximum.accumulate(np.where(larger, np.arange(len(rising)), 0))]
    return found


def judged(table: VoteTable, judge: str) -> Judged:
    """Judge every image of a table that has a vote."""
    checks.one_of("judge", judge, JUDGES)
    hits = np.where(table.votes == NO_VOTE, MISSING, table.votes == table.truth[:, None])
    rows = np.flatnonzero((hits != MISSING).any(1))
    if not len(rows):
        raise DataError(f"{table.path} has no votes: every cell of {', '.join(table.annotators)} is empty.")
    present, model = np.unique(table.model[rows], return_inverse=True)
    return Judged(
        rows=rows,
        models=tuple(table.models[number] for number in present),
        model=model,
        original=np.unique(table.original[rows], return_inverse=True)[1],
        hits=hits[rows],
        chances=JUDGES[judge](hits[rows]),
    )


def metric_columns(table: VoteTable, asked: Sequence[str]) -> tuple[str, ...]:
    """The columns that are correlated: those asked for, else those of known metrics."""
    usable = [name for name in table.cells if why_no_metric(name) is None]
    if not asked:
        known = tuple(name for name in usable if direction(name) is not None)
        if not known:
            raise DataError(
                f"{table.path} has no column of a known metric ({', '.join(LEAKS_WHEN)}): "
                f"name some with --metrics; here are {', '.join(usable) or 'none that could be one'}."
            )
        return known
    for name in asked:
        if name not in table.cells:
            raise UnknownNameError("metric column", name, usable)
        reason = why_no_metric(name)
        if reason is not None:
            raise SettingError(f"Column '{name}' cannot be a metric: {reason}. Use {', '.join(usable) or 'others'}.")
    return tuple(dict.fromkeys(asked))


def why_no_metric(name: str) -> str | None:
    """The reason a column cannot be a metric, if its name gives one."""
    return next((reason for pattern, reason in REFUSED if pattern.fullmatch(name)), None)


def direction(name: str) -> Literal["high", "low"] | None:
    """Whether high or low values of a metric leak, by its name without settings, where that is known."""
    return LEAKS_WHEN.get(name.partition(":")[0])
