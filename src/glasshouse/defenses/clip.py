"""Gradient clipping, with noise in proportion to the clip."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from glasshouse import checks
from glasshouse.defenses.base import GradientDefense, defenses
from glasshouse.registry import setting
from glasshouse.training import Gradients


@defenses.register("clip")
@dataclass(frozen=True, kw_only=True)
class Clip(GradientDefense):
    """Scales the whole gradient down to a norm, then adds noise times that norm to every entry.

    This is the step of DP-SGD on one shared gradient, without its accounting: no (epsilon, delta) is claimed.
    """

    paper: ClassVar[str] = "Abadi et al. 2016, Deep Learning with Differential Privacy, algorithm 1"

    norm: float = setting(1.0, "largest L2 norm of all gradients taken together")
    noise: float = setting(0.0, "standard deviation of the noise as a multiple of the norm")

    def __post_init__(self) -> None:
        checks.at_least("norm", self.norm, 1e-12)
        checks.at_least("noise", self.noise, 0)

    def change(self, gradient: Tensor, *, rng: torch.Generator) -> Tensor:
        """Return one clipped gradient with noise added."""
        noise = torch.randn(gradient.shape, generator=rng, dtype=gradient.dtype)
        return gradient + self.noise * self.norm * noise.to(gradient.device)

    def _changed(self, gradients: Gradients, rng: torch.Generator) -> Gradients:
        """Clip all gradients together, then add noise to each."""
        total = torch.stack([gradient.square().sum() for gradient in gradients.values()]).sum().sqrt()
        scale = (self.norm / total.clamp_min(torch.finfo(total.dtype).tiny)).clamp_max(1)
        return super()._changed({name: gradient * scale for name, gradient in gradients.items()}, rng)
