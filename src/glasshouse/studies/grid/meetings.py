"""Which attacks of a grid meet which networks: one that works on a network may not on what a defense makes of it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from glasshouse import defenses
from glasshouse.attacks.base import InversionAttack
from glasshouse.store import ImageRecord
from glasshouse.studies.case import Case
from glasshouse.studies.plan import Plan
from glasshouse.studies.study import Victim, expand
from glasshouse.studies.suitable import audited_networks, fitting_attacks
from glasshouse.types import ImageSpec

#: Networks by the recipes that they were trained by.
Victims = Mapping[tuple[str, ...], Sequence[Victim]]


@dataclass(frozen=True, slots=True, eq=False)
class Meeting:
    """A network, what a plan does to it behind some defenses, and the attacks that can work on it there."""

    victim: Victim
    plan: Plan
    attacks: list[tuple[str, InversionAttack]]


def meetings(
    plan: Plan,
    image: ImageSpec,
    pairings: Sequence[tuple[tuple[str, ...], tuple[str, ...]]],
    victims: Victims,
    public: int | None,
) -> list[Meeting]:
    """Every network with the attacks that can work on it, behind the defenses that its recipe is paired with."""
    return [
        Meeting(victim, own, fitting_attacks(own, image, audited_networks(own, [victim.model]), public=public).attacks)
        for recipes, behind in pairings
        for own, victim in itertools.product(_parts(plan, behind), victims[recipes])
    ]


def met_cases(found: Sequence[Meeting], records: Sequence[ImageRecord], architecture: str, public: str) -> list[Case]:
    """Every meeting as cases, the images outermost so that a first picture comes soon."""
    cases = (
        case for one in found for case in expand(one.plan, one.attacks, [one.victim], records, architecture, public)
    )
    return sorted(cases, key=lambda case: case.images)


def _parts(plan: Plan, behind: Sequence[str]) -> Iterator[Plan]:
    """A plan for the defenses that leave a network as it is, and one for each that changes it."""
    changing = [text for text in behind if defenses.create(text).changes_model]
    leaving = tuple(text for text in behind if text not in changing)
    return (replace(plan, defenses=own) for own in (leaving, *((text,) for text in changing)) if own)
