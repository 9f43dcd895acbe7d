"""Structural similarity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from glasshouse.functional.ssim import WINDOW, structural_similarity
from glasshouse.metrics.base import Leaks, Metric, metrics
from glasshouse.types import ImageSpec


@metrics.register("ssim")
@dataclass(frozen=True, kw_only=True)
class SSIM(Metric):
    """SSIM with the original 11x11 Gaussian window, averaged over channels; 1 for identical images."""

    paper: ClassVar[str] = "Wang et al. 2004, Image Quality Assessment"
    label: ClassVar[str] = "SSIM"
    leaks_when: ClassVar[Leaks] = "high"
    bounds: ClassVar[tuple[float, float]] = (-1.0, 1.0)

    def why_not(self, image: ImageSpec, images: int) -> str | None:
        """SSIM is not defined where its window does not fit."""
        small = min(image.height, image.width) < WINDOW
        return f"SSIM is not defined under {WINDOW} px" if small else None

    def per_image(self, truth: Tensor, guess: Tensor) -> Tensor:
        """Return (N,) values."""
        return structural_similarity(truth, guess)
