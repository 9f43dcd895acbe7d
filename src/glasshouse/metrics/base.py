"""The contract of metrics."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar, Literal, final

import torch
from torch import Tensor, nn

from glasshouse import checks, devices
from glasshouse.functional.intervals import ANYWHERE, mean_interval
from glasshouse.registry import Registry
from glasshouse.types import ImageSpec, Interval

Leaks = Literal["high", "low"]


class AnyMetric(ABC):
    """What metrics of single images and of sets have in common."""

    name: ClassVar[str]
    paper: ClassVar[str]
    label: ClassVar[str]
    leaks_when: ClassVar[Leaks]
    version: ClassVar[int] = 1

    @property
    def edition(self) -> str:
        """What a stored score depends on beside the settings: the version of the algorithm, and of its weights."""
        return f"v{self.version}"

    def why_not(self, image: ImageSpec, images: int) -> str | None:
        """The reason this metric is not defined for so many images of such a shape, if there is one."""
        return None


class Metric(AnyMetric):
    """A value for each pair of truth and guess; ``leaks_when`` says whether high or low values leak more.

    ``bounds`` are the least and the largest value that there can be.
    """

    bounds: ClassVar[tuple[float, float]] = ANYWHERE

    @final
    def __call__(self, truth: Tensor, guess: Tensor) -> Tensor:
        """Check both batches and return one value per pair: (N,)."""
        checks.pairs(truth, guess)
        with torch.no_grad():
            return self.per_image(truth, guess)

    @final
    def mean(self, values: Sequence[float]) -> Interval:
        """The mean of some values of this metric, with a 95 % interval within its bounds."""
        return mean_interval(values, within=self.bounds)

    @abstractmethod
    def per_image(self, truth: Tensor, guess: Tensor) -> Tensor:
        """Return (N,) values for (N, C, H, W) pairs in [0, 1]."""


class SetMetric(AnyMetric):
    """One value for a whole set of pairs."""

    @abstractmethod
    def update(self, truth: Tensor, guess: Tensor) -> None:
        """Take in some more pairs."""

    @abstractmethod
    def compute(self) -> float:
        """Return the value over all pairs taken in."""


def through(
    network: nn.Module, distances: Callable[[Tensor, Tensor], Tensor], truth: Tensor, guess: Tensor, at_once: int
) -> Tensor:
    """Distances (N,) of pairs through the eyes of a network, so many at once: on its device, and then on the CPU."""
    checks.colours(truth)
    precision = next(network.parameters()).dtype
    with devices.placed(network) as device:
        pairs = zip(*(images.to(precision).split(at_once) for images in (truth, guess)), strict=True)
        return torch.cat([distances(first.to(device), second.to(device)).cpu() for first, second in pairs])


metrics: Registry[AnyMetric] = Registry("metric", "glasshouse.metrics")
