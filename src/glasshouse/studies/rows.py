"""What tables of a study consist of: typed rows with intervals and threat cards, and the same as JSON."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from glasshouse import attacks
from glasshouse.registry import to_spec
from glasshouse.types import JSON, Interval, Threat, finite_or_none

TUNED, FIXED = "tuned", "fixed settings"
UNTUNABLE = "nothing to tune"  # an attack without a setting that tuning searches
ONE_IMAGE = "one image: no interval"
WHOLE_SET = "one value for the whole set"


@dataclass(frozen=True, slots=True)
class Setup:
    """What a row is about."""

    dataset: str
    model: str
    defense: str
    attack: str
    seed: int
    threat: Threat
    defense_spec: str
    attack_spec: str

    @property
    def settings(self) -> str:
        """What tuning chose, as a SPEC that can be typed; else that nothing was searched."""
        return chosen_settings(self.attack_spec, self.threat.tuning)


@dataclass(frozen=True, slots=True)
class Row:
    """One metric of one setup: mean and bootstrap 95 % interval over images, or the reason for none."""

    setup: Setup
    metric: str
    value: Interval | None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class PerImage:
    """One metric of one reconstruction; paths are relative to the study's directory."""

    setup: Setup
    metric: str
    image: int
    value: float | None
    truth: str
    guess: str


@dataclass(frozen=True, slots=True)
class Failed:
    """A case that could not be finished, and why."""

    setup: Setup
    images: tuple[int, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Identified:
    """How many reconstructions point to their original among a hundred others and clearly beat the floor.

    ``told`` is the share of those that point to it, whatever they look like: one in 101 by chance.
    """

    setup: Setup
    share: Interval
    images: tuple[int, ...]
    told: Interval

    def to_json(self) -> JSON:
        """As plain JSON, without the images."""
        return {**setup_json(self.setup), **interval_json(self.share), "told": interval_json(self.told)}


@dataclass(frozen=True, slots=True)
class Spent:
    """What a setup costs: bytes of a message that the client shares, and seconds of the attack for each image."""

    setup: Setup
    message_bytes: Interval | None
    seconds: Interval | None


def chosen_settings(attack_spec: str, tuning: str) -> str:
    """The settings of an attack in words for tables: the SPEC that was found by tuning, else how it was tuned."""
    return to_spec(attacks.create(attack_spec)) if tuning == TUNED else tuning


def setup_json(setup: Setup) -> JSON:
    """A setup as plain JSON."""
    return {
        "dataset": setup.dataset,
        "model": setup.model,
        "defense": setup.defense,
        "attack": setup.attack,
        "defense_spec": setup.defense_spec,
        "attack_spec": setup.attack_spec,
        "seed": setup.seed,
        "threat": dataclasses.asdict(setup.threat),
    }


def interval_json(value: Interval | None) -> dict[str, Any]:
    """An interval as plain JSON; no numbers where there is none."""
    if value is None:
        return {"mean": None, "low": None, "high": None, "images": 0}
    ends = {name: finite_or_none(getattr(value, name)) for name in ("mean", "low", "high")}
    return {**ends, "images": value.images}


def why_no_interval(images: int) -> str:
    """Why a value over so many images has no interval: metrics of sets have one value for all of them."""
    return ONE_IMAGE if images == 1 else WHOLE_SET


def row_json(row: Row) -> JSON:
    """A row as plain JSON."""
    return {**setup_json(row.setup), "metric": row.metric, **interval_json(row.value), "reason": row.reason}
