"""Gaussian noise on images, the baseline that the CSVAR paper calls DP."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from glasshouse import checks
from glasshouse.defenses.base import Defense, defenses
from glasshouse.registry import setting
from glasshouse.types import Stage


@defenses.register("image_noise")
@dataclass(frozen=True, kw_only=True)
class ImageNoise(Defense):
    """Adds normal noise to every pixel and clips to the valid range; it gives no (epsilon, delta) guarantee."""

    paper: ClassVar[str] = "CSVAR: Enhancing Visual Privacy in Federated Learning via Adaptive Shuffling, section V"
    stages: ClassVar[frozenset[Stage]] = frozenset({Stage.IMAGES})

    sigma: float = setting(50.0, "standard deviation of the noise on the 0 to 255 scale (published: 50)")

    def __post_init__(self) -> None:
        checks.at_least("sigma", self.sigma, 0)

    @property
    def acts_on(self) -> str:
        """Where this defense acts, for tables."""
        return "images"

    def on_images(self, images: Tensor, *, rng: torch.Generator) -> Tensor:
        """Return noisy copies of the images."""
        noise = torch.randn(images.shape, generator=rng, dtype=images.dtype)
        return (images + self.sigma / 255 * noise).clamp(0, 1)
