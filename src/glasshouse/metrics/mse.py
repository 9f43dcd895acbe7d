"""Mean squared error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from glasshouse.metrics.base import Leaks, Metric, metrics


@metrics.register("mse")
@dataclass(frozen=True, kw_only=True)
class MSE(Metric):
    """Mean squared difference of pixel values in [0, 1], per image."""

    paper: ClassVar[str] = "the mean of squared differences"
    label: ClassVar[str] = "MSE"
    leaks_when: ClassVar[Leaks] = "low"
    bounds: ClassVar[tuple[float, float]] = (0.0, 1.0)

    def per_image(self, truth: Tensor, guess: Tensor) -> Tensor:
        """Return (N,) values."""
        return (truth - guess).pow(2).flatten(1).mean(1)
