"""Two studies of federations beside one another: differences of the same setups, paired by seed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from glasshouse.errors import StudyError
from glasshouse.functional.intervals import mean_interval
from glasshouse.studies.federations.results import Line, lines
from glasshouse.studies.grid.comparison import Compared


@dataclass(frozen=True, slots=True)
class Difference(Compared):
    """One measure of one setup in both studies, over the seeds that both have.

    ``images`` of the difference counts seeds. Of one seed there is a difference and no interval.
    """

    dataset: str
    model: str
    defense: str
    augment: bool
    round: int
    query: str
    attack: str
    measure: str


#: The lines of one setup by seed.
Setups = dict[tuple[object, ...], dict[int, Line]]


def compare(first: Path, second: Path) -> list[Difference]:
    """Every setup and measure that two studies share; studies without one are refused."""
    one, two = _setups(first), _setups(second)
    found = [
        _difference([(line, two[setup][seed]) for seed, line in seeds.items() if seed in two[setup]])
        for setup, seeds in one.items()
        if seeds.keys() & two.get(setup, {}).keys()
    ]
    if not found:
        raise StudyError(
            f"{first} and {second} have no finished federation in common: compare studies whose plans share data sets, "
            "models, defenses and seeds, as they are written."
        )
    return found


def _setups(directory: Path) -> Setups:
    found: Setups = defaultdict(dict)
    for line in lines(directory):
        found[line.setup][line.seed] = line
    return found


def _difference(pairs: Sequence[tuple[Line, Line]]) -> Difference:
    line, _ = pairs[0]
    return Difference(
        line.dataset,
        line.model,
        line.defense,
        line.augment,
        line.round,
        line.query,
        line.attack,
        line.measure,
        first=sum(one.mean for one, _ in pairs) / len(pairs),
        second=sum(two.mean for _, two in pairs) / len(pairs),
        difference=mean_interval([two.mean - one.mean for one, two in pairs]),
    )
