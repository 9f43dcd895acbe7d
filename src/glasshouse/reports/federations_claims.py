"""What a paper claims of federations, held against what a study measured: differences with intervals, and a verdict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import hypot

import numpy as np

from glasshouse.functional.intervals import mean_interval
from glasshouse.studies.federations.results import behind, told
from glasshouse.types import JSON, Interval

HOLDS, FAILS, OPEN = "holds", "does not hold", "not resolved"
CLEAN, PROTECTED = "clean", "protected"

#: A value of one federation with its interval over images: ``mean``, ``low`` and ``high``.
Value = Callable[[JSON], JSON]


@dataclass(frozen=True, slots=True)
class Claim:
    """An order that is claimed: the value falls from way to way in which clients train, as ``words`` say.

    A step may rise by less than ``margin`` and still be as claimed.
    """

    words: str
    ways: tuple[str, ...]
    value: Value
    margin: float = 0.0


@dataclass(frozen=True, slots=True)
class Step:
    """The difference between two neighbours of an order, larger minus smaller; its ``images`` count seeds."""

    larger: str
    smaller: str
    difference: Interval
    margin: float = 0.0

    @property
    def verdict(self) -> str:
        """Whether the difference lies where it is claimed to lie, as far as its interval can tell."""
        if self.difference.low > -self.margin:
            return HOLDS
        return FAILS if self.difference.high < -self.margin else OPEN


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a claim: its steps, or the ways that were not measured yet."""

    claim: Claim
    steps: tuple[Step, ...]
    missing: tuple[str, ...]

    @property
    def word(self) -> str:
        """The verdict: an order holds where every step does, and fails where one does, whatever the others do."""
        found = {step.verdict for step in self.steps}
        if self.missing and FAILS not in found:
            return f"not measured yet ({', '.join(self.missing)} missing)"
        return next(word for word in (FAILS, OPEN, HOLDS) if word in found)


def judged(claim: Claim, rows: Sequence[JSON]) -> Verdict:
    """Hold a claim against the federations of one network on one data set."""
    value, found = claim.value, {way: {row["seed"]: row for row in rows if behind(row) == way} for way in claim.ways}
    pairs = list(zip(claim.ways, claim.ways[1:], strict=False))
    missing = tuple(way for way, own in found.items() if not own)
    alike = {pair: sorted(found[pair[0]].keys() & found[pair[1]].keys()) for pair in pairs}
    steps = tuple(
        Step(one, two, gap([(value(found[one][seed]), value(found[two][seed])) for seed in seeds]), claim.margin)
        for (one, two), seeds in alike.items()
        if seeds
    )
    return Verdict(claim, steps, missing or (() if len(steps) == len(pairs) else ("seeds in common",)))


def gap(pairs: Sequence[tuple[JSON, JSON]]) -> Interval:
    """The mean of first minus second over seeds, with the wider of two intervals.

    One is Student's t over the seeds, paired. The other combines the intervals over images of both values as if these
    were independent (Zou and Donner 2008), and so is too wide rather than too narrow where both saw the same images.
    """
    seeds = mean_interval([one["mean"] - two["mean"] for one, two in pairs])
    below = sum(hypot(one["mean"] - one["low"], two["high"] - two["mean"]) for one, two in pairs) / len(pairs)
    above = sum(hypot(one["high"] - one["mean"], two["mean"] - two["low"]) for one, two in pairs) / len(pairs)
    low, high = np.fmin(seeds.low, seeds.mean - below), np.fmax(seeds.high, seeds.mean + above)  # one seed has none
    return Interval(seeds.mean, float(low), float(high), len(pairs))


def accuracy(query: str) -> Value:
    """Accuracy on test images, asked in one way; what changes no images can be asked with clean ones only."""

    def value(row: JSON) -> JSON:
        asked: JSON = row["accuracy"]
        right: JSON = asked[query if query in asked else CLEAN]["test"]
        return right

    return value


def best_accuracy(row: JSON) -> JSON:
    """Accuracy on test images, asked in the way in which the model is most often right."""
    best: JSON = max((asked["test"] for asked in row["accuracy"].values()), key=lambda one: one["mean"])
    return best


def area(attack: str, query: str) -> Value:
    """The area under the ROC curve of one attack after the last round, asked in one way where there are two."""

    def value(row: JSON) -> JSON:
        found = told(row)
        name = f"{attack}, {query}"
        curve: JSON = found[name if name in found else f"{attack}, {CLEAN}"]["auc"]
        return curve

    return value


def worst_area(attack: str) -> Value:
    """The same, asked in the way that tells members best: that is what counts."""

    def value(row: JSON) -> JSON:
        found = told(row)
        ways = [found[name]["auc"] for name in found if name.rpartition(", ")[0] == attack]
        worst: JSON = max(ways, key=lambda one: one["mean"])
        return worst

    return value
