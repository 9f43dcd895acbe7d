"""What metrics of two sets of Inception features have in common."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar, final

import torch
from torch import Tensor

from glasshouse import checks, devices
from glasshouse.errors import NotDefinedError
from glasshouse.metrics.base import SetMetric
from glasshouse.models import trunks
from glasshouse.types import ImageSpec

CHUNK = 32


def features(images: Tensor) -> Tensor:
    """Inception features (N, 2048) of images (N, C, H, W), grey ones repeated over three channels."""
    checks.colours(images)
    network = trunks.inception_fid()
    with torch.no_grad(), devices.placed(network) as device:
        chunks = images.expand(-1, 3, -1, -1).split(CHUNK)
        return torch.cat([network(chunk.to(device)).cpu() for chunk in chunks])


@dataclass(kw_only=True)
class FeatureMetric(SetMetric):
    """A distance between the Inception features of the truths and of the guesses, from ``fewest`` images on."""

    fewest: ClassVar[int]

    truths: list[Tensor] = field(default_factory=list, init=False, repr=False)
    guesses: list[Tensor] = field(default_factory=list, init=False, repr=False)

    @abstractmethod
    def distance(self, truths: Tensor, guesses: Tensor) -> float:
        """Return the distance between two (N, 2048) sets."""

    def why_not(self, image: ImageSpec, images: int) -> str | None:
        """A handful of images is no set."""
        if images >= self.fewest:
            return None
        return f"{self.label} is not defined under {self.fewest} images, here are {images}"

    def update(self, truth: Tensor, guess: Tensor) -> None:
        """Take in the features of some more pairs."""
        checks.pairs(truth, guess)
        self.truths.append(features(truth))
        self.guesses.append(features(guess))

    @final
    def compute(self) -> float:
        """Return the distance over all pairs taken in."""
        count = sum(len(chunk) for chunk in self.truths)
        if count < self.fewest:
            raise NotDefinedError(f"{self.label} is not defined under {self.fewest} images, here are {count}.")
        return self.distance(torch.cat(self.truths), torch.cat(self.guesses))
