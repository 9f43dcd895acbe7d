"""Peak signal-to-noise ratio."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from glasshouse.metrics.base import Leaks, Metric, metrics


@metrics.register("psnr")
@dataclass(frozen=True, kw_only=True)
class PSNR(Metric):
    """10 log10(1 / MSE) per image, in dB; infinite for identical images.

    Per image, then averaged by the caller; some peers pool the error of a batch first and get other values.
    """

    paper: ClassVar[str] = "10 log10(peak^2 / MSE)"
    label: ClassVar[str] = "PSNR (dB)"
    leaks_when: ClassVar[Leaks] = "high"
    bounds: ClassVar[tuple[float, float]] = (0.0, math.inf)

    def per_image(self, truth: Tensor, guess: Tensor) -> Tensor:
        """Return (N,) values."""
        return -10 * torch.log10((truth - guess).pow(2).flatten(1).mean(1))
