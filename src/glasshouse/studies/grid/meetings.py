"""Which attacks of a grid meet which networks: one that works on a network may not on what a defense makes of it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from torch import nn

from glasshouse import defenses
from glasshouse.store import ImageRecord
from glasshouse.studies.case import Case
from glasshouse.studies.grid.plan import Grid
from glasshouse.studies.plan import Plan
from glasshouse.studies.study import Victim, expand
from glasshouse.studies.suitable import Suitable, fitting_attacks, modes
from glasshouse.types import ImageSpec

#: Networks by the recipes that they were trained by.
Victims = Mapping[tuple[str, ...], Sequence[Victim]]


@dataclass(frozen=True, slots=True, eq=False)
class Meeting:
    """A network, what a plan does to it behind some defenses, what these make of it, and the attacks that fit that."""

    victim: Victim
    plan: Plan
    network: nn.Module
    suitable: Suitable


@dataclass(frozen=True, slots=True)
class Unfit:
    """An attack that cannot work on networks of one recipe behind one defense, and why."""

    dataset: str
    model: str
    recipe: str
    defense: str
    attack: str
    reason: str


def meetings(grid: Grid, plan: Plan, image: ImageSpec, victims: Victims, public: int | None) -> list[Meeting]:
    """Every network with the attacks that can work on it, behind the defenses that its recipe is paired with."""
    known: dict[int, Suitable] = {}
    found = []
    for recipes, behind in grid.pairings():
        for own, victim in itertools.product(_parts(plan, behind), victims[recipes]):
            network = defenses.create(own.defenses[0]).on_model(victim.model)
            if id(network) not in known:
                audited = [(network, mode) for mode in modes(plan, network)]
                known[id(network)] = fitting_attacks(plan, image, audited, public=public)
            found.append(Meeting(victim, own, network, known[id(network)]))
    return found


def met_cases(found: Sequence[Meeting], records: Sequence[ImageRecord], architecture: str, public: str) -> list[Case]:
    """Every meeting as cases, in the order of their images."""
    cases = (
        case
        for one in found
        for case in expand(one.plan, one.suitable.attacks, [one.victim], records, architecture, public)
    )
    return sorted(cases, key=lambda case: case.images)


def told(grid: Grid, unfit: Sequence[Unfit]) -> tuple[str, ...]:
    """Where attacks cannot work, and why: on a model, or only with some data sets or behind some defenses."""
    places: dict[tuple[str, str, str, str], set[tuple[str, str]]] = {}
    for one in unfit:
        places.setdefault((one.attack, one.model, one.reason, one.dataset), set()).add((one.recipe, one.defense))
    alike: dict[tuple[str, str, str, frozenset[tuple[str, str]]], list[str]] = {}
    for (attack, model, reason, dataset), pairs in places.items():
        alike.setdefault((attack, model, reason, frozenset(pairs)), []).append(dataset)
    return tuple(
        f"{attack} on {_where(grid, model, datasets, pairs)}: {reason}"
        for (attack, model, reason, pairs), datasets in alike.items()
    )


def _where(grid: Grid, model: str, datasets: Sequence[str], pairs: frozenset[tuple[str, str]]) -> str:
    every = grid.pairs_of(model)
    where = model if len(datasets) == len(grid.datasets) else f"{model}, {', '.join(datasets)}"
    if len(pairs) == len(every):
        return where
    changing = (
        defense if defenses.create(defense).changes_model else recipe
        for recipe, defense in every
        if (recipe, defense) in pairs
    )
    return f"{where} behind {', '.join(dict.fromkeys(changing))}"


def _parts(plan: Plan, behind: Sequence[str]) -> Iterator[Plan]:
    """A plan for the defenses that leave a network as it is, and one for each that changes it."""
    changing = [text for text in behind if defenses.create(text).changes_model]
    leaving = tuple(text for text in behind if text not in changing)
    return (replace(plan, defenses=own) for own in (leaving, *((text,) for text in changing)) if own)
