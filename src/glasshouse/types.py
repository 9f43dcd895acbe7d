"""The values that travel between the rooms: frozen dataclasses and the protocols of small callables.

Images outside models are (N, C, H, W) floats in [0, 1]. Nothing here imports torch at run time, so that
the command line and the store stay light.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from torch import Tensor, device

#: Called with the share of the work done, in [0, 1].
Progress = Callable[[float], None]

#: Places of images, among those behind an observation, that each of several messages is about.
Batches = tuple[tuple[int, ...], ...]

#: How batch norm behaved when the shared gradient was computed.
BatchNorm = Literal["eval", "train"]

#: Where a defense acts: on the gradients a client shares now, on those it trained with, or on both.
Place = Literal["gradient", "training", "both"]


class Stage(StrEnum):
    """Where in a client's work a defense acts; decisions are made by these, tables show ``acts_on``."""

    IMAGES = "images"
    LABELS = "labels"
    COMPUTING = "computing the gradient"
    TRAINING = "training"
    SHARING = "sharing the gradient"


def no_progress(share: float) -> None:
    """Report progress to nobody."""


@dataclass(frozen=True, slots=True)
class ImageSpec:
    """What every image of a data set looks like, and how many classes there are."""

    channels: int
    height: int
    width: int
    classes: int

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height, width."""
        return self.channels, self.height, self.width

    def __str__(self) -> str:
        return f"{self.channels}x{self.height}x{self.width}, {self.classes} classes"


class Capability(StrEnum):
    """Something an attacker may or may not have; attacks list what they need."""

    GRADIENT = "gradient"
    UPDATE = "update"
    LABELS = "labels"
    RUNNING_STATISTICS = "running statistics"
    BATCH_STATISTICS = "batch statistics"
    SAMPLE_INDICES = "sample indices"
    PUBLIC_IMAGES = "public images"


@dataclass(frozen=True, slots=True, eq=False)
class SharedUpdate:
    """One message the server saw: a gradient, or the weight difference after several local steps.

    ``tensors`` maps the model's parameter names, all or some of them, to tensors of the parameters' shapes. An update
    is the weights before minus those after, so that one local step shares the gradient times the learning rate.
    ``local_batch`` is how many images each local step saw, in the order of the client's; None means all of them.
    """

    tensors: Mapping[str, Tensor]
    kind: Literal["gradient", "update"] = "gradient"
    local_steps: int = 1
    learning_rate: float | None = None
    indices: tuple[int, ...] | None = None
    local_batch: int | None = None

    def to(self, place: device) -> SharedUpdate:
        """The same message on a device."""
        return replace(self, tensors={name: value.to(place) for name, value in self.tensors.items()})


@dataclass(frozen=True, slots=True, eq=False)
class Observation:
    """All that an attacker may know. It never holds the images that are to be found.

    ``public`` are images (M, C, H, W) of others; ``defense`` is the SPEC of the client's defense, without key or
    random numbers: most attacks ignore it.
    ``running_statistics`` says whether those of batch norm are known; ``batch_statistics`` are, for a stronger
    attacker, mean and variance (channels,) of the private batch in every batch norm layer, in the order of calls.
    """

    rounds: tuple[SharedUpdate, ...]
    image: ImageSpec
    batch_size: int
    batchnorm: BatchNorm = "eval"
    labels: Tensor | None = None
    public: Tensor | None = None
    defense: str = "none"
    running_statistics: bool = True
    batch_statistics: tuple[tuple[Tensor, Tensor], ...] | None = None

    @property
    def offers(self) -> frozenset[Capability]:
        """The capabilities that this observation gives an attacker."""
        held = {
            Capability.GRADIENT: any(seen.kind == "gradient" for seen in self.rounds),
            Capability.UPDATE: any(seen.kind == "update" for seen in self.rounds),
            Capability.LABELS: self.labels is not None,
            Capability.RUNNING_STATISTICS: self.running_statistics,
            Capability.BATCH_STATISTICS: self.batch_statistics is not None,
            Capability.SAMPLE_INDICES: any(seen.indices is not None for seen in self.rounds),
            Capability.PUBLIC_IMAGES: self.public is not None,
        }
        return frozenset(capability for capability, has in held.items() if has)

    def to(self, place: device) -> Observation:
        """The same on a device."""
        known = self.batch_statistics
        return replace(
            self,
            rounds=tuple(one.to(place) for one in self.rounds),
            labels=None if self.labels is None else self.labels.to(place),
            public=None if self.public is None else self.public.to(place),
            batch_statistics=None if known is None else tuple((a.to(place), b.to(place)) for a, b in known),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Reconstruction:
    """What an attack made of an observation.

    ``images`` are (N, C, H, W) in [0, 1] in no particular order, ``objective`` is the attacker's own score
    of the result (lower is better), ``labels`` (N,) are those it used.
    """

    images: Tensor
    objective: float
    labels: Tensor | None = None

    def to(self, place: device) -> Reconstruction:
        """The same on a device."""
        labels = None if self.labels is None else self.labels.to(place)
        return replace(self, images=self.images.to(place), labels=labels)


@dataclass(frozen=True, slots=True)
class Threat:
    """The threat card: under which conditions a row was measured."""

    batchnorm: str
    statistics: str
    labels: str
    labels_right: float | None
    batch: int
    local_steps: int
    clients: int
    round: str
    tuning: str
    snr_db: float | None
    adversary: str = "none"
    observations: int = 1
    layers: str = "all"
    last_batch: int | None = None  # images of the last batch, where that is smaller


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean, or share, with its 95 % interval over ``images`` values; both ends are NaN where there is none."""

    mean: float
    low: float
    high: float
    images: int

    def __format__(self, form: str) -> str:
        """The mean and, where there is one, its interval: ``f"{value:.3g}"`` is ``0.5 [0.4, 0.6]``."""
        ends = "" if math.isnan(self.low) else f" [{self.low:{form}}, {self.high:{form}}]"
        return f"{self.mean:{form}}{ends}"


def finite_or_none(value: float | None) -> float | None:
    """Return the value, or None where JSON has no number for it."""
    return None if value is None or not math.isfinite(value) else value


JSON = dict[str, Any]


def finite_json(value: Any) -> Any:
    """Plain values, however nested, with null for every number that JSON has not."""
    if isinstance(value, dict):
        return {name: finite_json(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [finite_json(one) for one in value]
    return finite_or_none(value) if isinstance(value, float) else value


def flat(name: str, value: Interval | None) -> JSON:
    """A value and the ends of its interval as three entries: ``name``, ``name_low``, ``name_high``."""
    ends = (None, None, None) if value is None else (value.mean, value.low, value.high)
    return {f"{name}{end}": finite_or_none(one) for end, one in zip(("", "_low", "_high"), ends, strict=True)}
