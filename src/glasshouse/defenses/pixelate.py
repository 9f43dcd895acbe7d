"""Pixelation: the plainest way to hide detail, and the line that cleverer ones must beat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from glasshouse import checks
from glasshouse.defenses.base import Defense, defenses
from glasshouse.registry import setting
from glasshouse.types import Stage


@defenses.register("pixelate")
@dataclass(frozen=True, kw_only=True)
class Pixelate(Defense):
    """Replaces every square of pixels by its mean colour; edge squares are averaged over what there is of them."""

    paper: ClassVar[str] = "mean colour of squares; no paper needed"
    stages: ClassVar[frozenset[Stage]] = frozenset({Stage.IMAGES})

    factor: int = setting(4, "side of the squares in pixels")

    def __post_init__(self) -> None:
        checks.at_least("factor", self.factor, 1)

    @property
    def acts_on(self) -> str:
        """Where this defense acts, for tables."""
        return "images"

    def on_images(self, images: Tensor, *, rng: torch.Generator) -> Tensor:
        """Return pixelated copies of the images."""
        height, width = images.shape[-2:]
        small = F.avg_pool2d(images, self.factor, ceil_mode=True, count_include_pad=False)
        large = small.repeat_interleave(self.factor, -2).repeat_interleave(self.factor, -1)
        return large[..., :height, :width].contiguous()
