"""Gaussian noise on gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from glasshouse import checks
from glasshouse.defenses.base import GradientDefense, defenses
from glasshouse.registry import setting


@defenses.register("gaussian")
@dataclass(frozen=True, kw_only=True)
class Gaussian(GradientDefense):
    """Adds sigma times standard normal noise to every gradient entry."""

    paper: ClassVar[str] = "Zhu et al. 2019, Deep Leakage from Gradients, section 5.1"

    sigma: float = setting(1e-3, "standard deviation of the noise (published: 1e-3, 1e-2)")

    def __post_init__(self) -> None:
        checks.at_least("sigma", self.sigma, 0)

    def change(self, gradient: Tensor, *, rng: torch.Generator) -> Tensor:
        """Return the gradient with noise added."""
        noise = torch.randn(gradient.shape, generator=rng, dtype=gradient.dtype)
        return gradient + self.sigma * noise.to(gradient.device)
