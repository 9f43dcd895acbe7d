"""Ridge regression whose strength is chosen on samples that it was not fitted to."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

STRENGTHS = tuple(10.0**power for power in range(-4, 3))  # per fitted sample, of standardised features
TINY = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class LinearMap:
    """``(features - offset) * scale @ weight + base``; features are (N, inputs), results (N, outputs)."""

    offset: Tensor
    scale: Tensor
    weight: Tensor
    base: Tensor

    def __call__(self, features: Tensor) -> Tensor:
        """Apply the map."""
        mapped: Tensor = (features - self.offset) * self.scale @ self.weight + self.base
        return mapped


def fit_ridge(features: Tensor, targets: Tensor, checked: tuple[Tensor, Tensor]) -> LinearMap:
    """The ridge regression of targets (N, outputs) on features (N, inputs) with the least error on ``checked`` pairs.

    Features are standardised first; one that never varies counts for nothing.
    """
    offset, base = features.mean(0), targets.mean(0)
    spread = features.std(0)
    scale = torch.where(spread > TINY, 1 / spread.clamp_min(TINY), 0.0)
    known = (features - offset) * scale
    values, axes = torch.linalg.eigh(known.T @ known)
    turned = axes.T @ (known.T @ (targets - base))
    best, least = turned, float("inf")
    for strength in STRENGTHS:
        weight = axes @ (turned / (values.clamp_min(0) + strength * len(features))[:, None])
        error = float((LinearMap(offset, scale, weight, base)(checked[0]) - checked[1]).square().mean())
        if error < least:
            best, least = weight, error
    return LinearMap(offset, scale, best, base)
