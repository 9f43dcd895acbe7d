"""Laplacian noise on gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from glasshouse import checks
from glasshouse.defenses.base import GradientDefense, defenses
from glasshouse.devices import CPU
from glasshouse.registry import setting


@defenses.register("laplace")
@dataclass(frozen=True, kw_only=True)
class Laplace(GradientDefense):
    """Adds scale times standard Laplacian noise (variance 2) to every gradient entry."""

    paper: ClassVar[str] = "Zhu et al. 2019, Deep Leakage from Gradients, section 5.1"

    scale: float = setting(1e-3, "scale of the noise (published: 1e-3, 1e-2, 1e-1)")

    def __post_init__(self) -> None:
        checks.at_least("scale", self.scale, 0)

    def change(self, gradient: Tensor, *, rng: torch.Generator) -> Tensor:
        """Return the gradient with noise added: the difference of two exponentials is Laplacian."""
        blank = torch.empty(gradient.shape, dtype=gradient.dtype, device=CPU)  # noise falls alike however gradients lie
        first, second = (blank.clone().exponential_(generator=rng) for _ in range(2))
        return gradient + self.scale * (first - second).to(gradient.device)
