"""Total variation, the smoothness prior of gradient inversion."""

from __future__ import annotations

import torch
from torch import Tensor


def total_variation(images: Tensor) -> Tensor:
    """Anisotropic total variation of (N, C, H, W): mean |dx| + mean |dy| (Geiping et al. 2020)."""
    return total_variations(images, len(images))[0]


def total_variations(images: Tensor, group: int) -> Tensor:
    """The same of every ``group`` images in a row: (N / group,)."""
    steps = [images.diff(dim=dim).abs().unflatten(0, (-1, group)).flatten(1).mean(1) for dim in (-1, -2)]
    return torch.stack(steps).sum(0)
