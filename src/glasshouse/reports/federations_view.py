"""What the page of a study of federations shows, as plain values: seeds of one setup brought together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from glasshouse.functional.intervals import mean_interval
from glasshouse.studies.federations.results import behind, told
from glasshouse.types import JSON, Interval

COIN = 0.5  # the area under the ROC curve of one who cannot tell members from others


@dataclass(frozen=True, slots=True)
class Told:
    """How well members were told from others by one attack, asked in one way, after the last round."""

    attack: str
    query: str
    auc: Interval

    @property
    def strength(self) -> tuple[bool, float]:
        """What attacks are ordered by: one that surely beats a coin comes before one that may only seem to."""
        return self.auc.low > COIN, self.auc.mean


@dataclass(frozen=True, slots=True)
class Place:
    """One data set, network and defense over all its seeds: accuracies by the way of asking, and who told members."""

    dataset: str
    model: str
    defense: str
    seeds: int
    trained: dict[str, Interval]
    tested: dict[str, Interval]
    told: tuple[Told, ...]

    @property
    def query(self) -> str:
        """The way of asking in which the model is most often right."""
        return max(self.tested, key=lambda query: self.tested[query].mean)

    @property
    def accuracy(self) -> Interval:
        """How often the model is right on test images, asked in that way."""
        return self.tested[self.query]

    @property
    def worst(self) -> Told | None:
        """The attack and way of asking that tell members best, of those that surely do where there are any."""
        return max(self.told, key=lambda one: one.strength, default=None)


def places(rows: Sequence[JSON]) -> list[Place]:
    """Every setup that has a finished federation, in the order of the plan."""
    alike: defaultdict[tuple[str, str, str], list[JSON]] = defaultdict(list)
    for row in rows:
        alike[row["dataset"], row["model"], behind(row)].append(row)
    return [_place(names, found) for names, found in alike.items()]


def _place(names: tuple[str, str, str], rows: Sequence[JSON]) -> Place:
    trained, tested = (
        {query: together([row["accuracy"][query][part] for row in rows]) for query in rows[0]["accuracy"]}
        for part in ("train", "test")
    )
    return Place(*names, len(rows), trained, tested, tuple(_told(rows)))


def _told(rows: Sequence[JSON]) -> list[Told]:
    last = [told(row) for row in rows]
    found = []
    for name in last[0]:
        attack, _, query = name.rpartition(", ")
        found.append(Told(attack, query, together([one[name]["auc"] for one in last])))
    return found


def last_round(row: JSON) -> int:
    """The last round after which a federation was asked about its members."""
    return max(int(number) for number in row["membership"])


def together(values: Sequence[JSON]) -> Interval:
    """The mean over seeds with the wider of two intervals: over seeds, and over images as in the single federations.

    Seeds that agree by chance must not look surer than the images behind them allow; one seed has no interval.
    """
    seeds = mean_interval([one["mean"] for one in values])
    low, high = (mean_interval([one[end] for one in values]).mean for end in ("low", "high"))
    return Interval(seeds.mean, float(np.fmin(seeds.low, low)), float(np.fmax(seeds.high, high)), values[0]["images"])


def percent(value: Interval) -> tuple[str, str]:
    """A share and its interval in words; an interval over few seeds may leave [0, 1], which no share does."""
    return f"{value.mean:.1%}", f"{max(value.low, 0):.1%} to {min(value.high, 1):.1%}"


def number(value: Interval) -> tuple[str, str]:
    """An area under a curve and its interval in words."""
    return f"{value.mean:.3f}", f"{max(value.low, 0):.3f} to {min(value.high, 1):.3f}"
