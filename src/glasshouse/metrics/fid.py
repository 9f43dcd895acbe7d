"""Fréchet inception distance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from glasshouse.functional.frechet import frechet_distance
from glasshouse.metrics.base import Leaks, metrics
from glasshouse.metrics.features import FeatureMetric


@metrics.register("fid")
@dataclass(kw_only=True)
class FID(FeatureMetric):
    """Fréchet distance between Inception features of the truths and of the guesses.

    Of fewer than 2,048 images the covariance is rank-deficient: compare values at equal counts only.
    """

    paper: ClassVar[str] = "Heusel et al. 2017, GANs Trained by a Two Time-Scale Update Rule"
    label: ClassVar[str] = "FID"
    leaks_when: ClassVar[Leaks] = "low"
    fewest: ClassVar[int] = 50

    def distance(self, truths: Tensor, guesses: Tensor) -> float:
        """Return the Fréchet distance between the Gaussians of two sets."""
        return frechet_distance(truths, guesses)
