"""Kernel inception distance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from glasshouse.functional.discrepancy import polynomial_mmd
from glasshouse.metrics.base import Leaks, metrics
from glasshouse.metrics.features import FeatureMetric


@metrics.register("kid")
@dataclass(kw_only=True)
class KID(FeatureMetric):
    """Squared maximum mean discrepancy between Inception features of the truths and of the guesses.

    Unbiased, so values at unequal counts may be compared; over the whole sets at once, so nothing is random.
    """

    paper: ClassVar[str] = "Binkowski et al. 2018, Demystifying MMD GANs"
    label: ClassVar[str] = "KID"
    leaks_when: ClassVar[Leaks] = "low"
    fewest: ClassVar[int] = 10

    def distance(self, truths: Tensor, guesses: Tensor) -> float:
        """Return the discrepancy under the polynomial kernel of degree 3."""
        return polynomial_mmd(truths, guesses)
