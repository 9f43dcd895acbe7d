"""Learned perceptual image patch similarity."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from glasshouse.metrics.base import Leaks, Metric, metrics, through
from glasshouse.models import trunks
from glasshouse.registry import setting

SHIFT = (-0.030, -0.088, -0.188)
SCALE = (0.458, 0.448, 0.450)
SMALLEST = 64
CHUNK = 16  # what a chunk makes should not leave the caches more than it must

TRUNKS: dict[str, Callable[[], trunks.Slices]] = {"alex": trunks.alexnet, "vgg": trunks.vgg16}


@metrics.register("lpips")
@dataclass(frozen=True, kw_only=True)
class LPIPS(Metric):
    """Weighted distance of unit-normalized features, version 0.1; 0 for identical images.

    Images under 64 px are enlarged bilinearly first; grey ones are repeated over three channels.
    """

    paper: ClassVar[str] = "Zhang et al. 2018, The Unreasonable Effectiveness of Deep Features"
    label: ClassVar[str] = "LPIPS"
    leaks_when: ClassVar[Leaks] = "low"
    bounds: ClassVar[tuple[float, float]] = (0.0, math.inf)

    net: Literal["alex", "vgg"] = setting("alex", "feature network: AlexNet or VGG16")

    def per_image(self, truth: Tensor, guess: Tensor) -> Tensor:
        """Return (N,) values."""
        return through(TRUNKS[self.net](), self._distances, truth, guess, CHUNK)

    def _distances(self, truth: Tensor, guess: Tensor) -> Tensor:
        features = TRUNKS[self.net]()(_prepare(torch.cat((truth, guess))))
        total = torch.zeros(len(truth), device=truth.device)
        for layer, weights in zip(features, trunks.lpips_weights(self.net), strict=True):
            flat = layer.flatten(2)
            flat /= flat.square().sum(1, keepdim=True).sqrt_().add_(1e-10)  # ours alone, so in place
            first, second = flat.chunk(2)
            total += (weights.to(flat.device) @ first.sub_(second).square_()).mean(1)
        return total


def _prepare(images: Tensor) -> Tensor:
    """Scaled as the authors do, which commutes with enlarging and is cheaper before it."""
    shift, scale = (torch.tensor(values, device=images.device).view(1, 3, 1, 1) for values in (SHIFT, SCALE))
    images = images * (2 / scale) - (1 + shift) / scale
    smallest = min(images.shape[-2:])
    if smallest < SMALLEST:
        size = [round(side * SMALLEST / smallest) for side in images.shape[-2:]]
        images = F.interpolate(images, size=size, mode="bilinear", align_corners=False)
    return images
