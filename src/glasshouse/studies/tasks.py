"""Cases that are worked on together: a function of the plan, never of what is left of it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from glasshouse import attacks
from glasshouse.studies.case import Case

Task = tuple[Case, ...]
APART = 2  # tasks are made in multiples of this, so that two cores share even a small study
FEWEST = 8  # images that are not parted for that: fewer at once take longer


def tasks(cases: Sequence[Case], most_images: int | None = None) -> list[Task]:
    """Cut cases into tasks of one model, mode, defense and attack, in the order of their first cases.

    ``most_images`` is how many fit into memory at once, where that is bounded.

    A network that works on sixteen images at once rounds otherwise than one that works on fifteen, and attacks blow
    such differences up. So a task of which something was lost is done again as a whole. What a plan gains, a defense
    or an attack, makes tasks of its own, and what is finished stays.
    """
    alike: dict[tuple[object, ...], list[Case]] = {}
    for case in cases:
        alike.setdefault(_kind(case), []).append(case)
    return [task for together in alike.values() for task in _cut(together, most_images)]


def _kind(case: Case) -> tuple[object, ...]:
    """What cases have in common that are worked on together: all but their images."""
    return (
        case.attack_spec,
        case.dataset,
        case.public,
        case.architecture,
        case.weights,
        case.round,
        case.batchnorm,
        case.labels,
        len(case.images),
        case.defense_spec,
        case.conditions,
    )


def _cut(cases: list[Case], most_images: int | None) -> list[Task]:
    """Equal parts, none with more images than the attack likes at once and memory holds."""
    attack = attacks.create(cases[0].attack_spec)
    fitting = attack.together if most_images is None else most_images // attack.at_once
    most = max(min(attack.together, fitting) // len(cases[0].images), 1)
    if most == 1:
        return [(case,) for case in cases]
    parts = math.ceil(len(cases) / most)
    if len(cases) * len(cases[0].images) > FEWEST:
        parts = min(APART * math.ceil(parts / APART), len(cases))
    bounds = [round(number * len(cases) / parts) for number in range(parts + 1)]
    return [tuple(cases[low:high]) for low, high in itertools.pairwise(bounds)]
