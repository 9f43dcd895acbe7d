"""Two grid studies beside one another: differences of the same setups over the same images, with intervals."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from glasshouse.errors import StudyError
from glasshouse.functional.intervals import mean_interval
from glasshouse.studies.grid.lines import Line, lines
from glasshouse.studies.rows import interval_json
from glasshouse.types import JSON, Interval, finite_or_none

SCHEMA = 1

#: The lines of one setup by the content of their originals.
Setups = dict[tuple[object, ...], dict[str, Line]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One value in two studies: its mean in each over what both have, and second minus first."""

    first: float
    second: float
    difference: Interval

    @property
    def surely(self) -> int:
        """1 where the second is higher beyond chance, -1 where it is lower, else 0."""
        return int(self.difference.low > 0) - int(self.difference.high < 0)

    def to_json(self) -> JSON:
        """All of it as plain JSON; ``mean``, ``low`` and ``high`` are of second minus first."""
        found = dataclasses.asdict(self)
        del found["difference"]
        means = {name: finite_or_none(found[name]) for name in ("first", "second")}
        return {**found, **means, **interval_json(self.difference)}


@dataclass(frozen=True, slots=True)
class Difference(Compared):
    """One metric of one setup in both studies, over the images that both have."""

    dataset: str
    model: str
    recipe: str
    training_seed: int
    epoch: int
    defense: str
    attack: str
    batchnorm: str
    metric: str


def compare(first: Path, second: Path) -> list[Difference]:
    """Every setup and metric that two studies share; studies without one are refused."""
    one, two = (_setups(lines(directory)) for directory in (first, second))
    found = [difference for setup in one if setup in two for difference in _differences(one[setup], two[setup])]
    if not found:
        raise StudyError(
            f"{first} and {second} have no finished setup in common on the same images: compare studies whose plans "
            "share data sets, models, recipes, seeds, defenses and attacks, as they are written, and the seed that "
            "draws the images."
        )
    return found


def _setups(found: Sequence[Line]) -> Setups:
    setups: Setups = defaultdict(dict)
    for line in found:
        setups[line.setup][line.truth_sha256] = line
    return setups


def _differences(first: dict[str, Line], second: dict[str, Line]) -> Iterator[Difference]:
    """One difference for every metric that has values in both, paired by image."""
    shared = [image for image in first if image in second]
    for metric in next(iter(first.values())).scores:
        pairs = [(first[image].scores[metric], second[image].scores.get(metric)) for image in shared]
        known = [(one, two) for one, two in pairs if one is not None and two is not None]
        if known:
            yield _difference(first[shared[0]], metric, known)


def _difference(line: Line, metric: str, known: Sequence[tuple[float, float]]) -> Difference:
    return Difference(
        line.dataset,
        line.model,
        line.recipe,
        line.training_seed,
        line.epoch,
        line.defense,
        line.attack,
        line.batchnorm,
        metric,
        first=sum(one for one, _ in known) / len(known),
        second=sum(two for _, two in known) / len(known),
        difference=mean_interval([0.0 if one == two else two - one for one, two in known]),  # both may be infinite
    )
