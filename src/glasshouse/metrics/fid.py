"""Fréchet inception distance."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from glasshouse import checks
from glasshouse.errors import NotDefinedError
from glasshouse.functional.frechet import frechet_distance
from glasshouse.metrics.base import Leaks, SetMetric, metrics
from glasshouse.models import trunks
from glasshouse.types import ImageSpec

FEWEST = 50
CHUNK = 32


@metrics.register("fid")
@dataclass(kw_only=True)
class FID(SetMetric):
    """Fréchet distance between Inception features of the truths and of the guesses.

    Of fewer than 2,048 images the covariance is rank-deficient: compare values at equal counts only.
    """

    paper: ClassVar[str] = "Heusel et al. 2017, GANs Trained by a Two Time-Scale Update Rule"
    label: ClassVar[str] = "FID"
    leaks_when: ClassVar[Leaks] = "low"

    truths: list[Tensor] = field(default_factory=list, init=False, repr=False)
    guesses: list[Tensor] = field(default_factory=list, init=False, repr=False)

    def why_not(self, image: ImageSpec, images: int) -> str | None:
        """FID is not defined for a handful of images."""
        return f"FID is not defined under {FEWEST} images, here are {images}" if images < FEWEST else None

    def update(self, truth: Tensor, guess: Tensor) -> None:
        """Take in the features of some more pairs."""
        checks.pairs(truth, guess)
        for images, features in ((truth, self.truths), (guess, self.guesses)):
            with torch.no_grad():
                for chunk in images.expand(-1, 3, -1, -1).split(CHUNK):
                    features.append(trunks.inception_fid()(chunk))

    def compute(self) -> float:
        """Return the distance over all pairs taken in."""
        count = sum(len(chunk) for chunk in self.truths)
        if count < FEWEST:
            raise NotDefinedError(f"FID is not defined under {FEWEST} images, here are {count}.")
        return frechet_distance(torch.cat(self.truths), torch.cat(self.guesses))
