"""Gradient pruning, also known as sparsification or compression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from glasshouse import checks
from glasshouse.defenses.base import GradientDefense, defenses
from glasshouse.registry import setting


@defenses.register("prune")
@dataclass(frozen=True, kw_only=True)
class Prune(GradientDefense):
    """Sets the given percentage of the smallest entries of every gradient tensor to zero."""

    paper: ClassVar[str] = "Zhu et al. 2019, Deep Leakage from Gradients, section 5.2"

    percent: float = setting(70.0, "share of entries set to zero in each tensor (published: 10 to 99)")

    def __post_init__(self) -> None:
        checks.between("percent", self.percent, 0, 100)

    def change(self, gradient: Tensor, *, rng: torch.Generator) -> Tensor:
        """Return the gradient with exactly that share of its entries set to zero."""
        pruned = gradient.clone().flatten()
        smallest = gradient.abs().flatten().argsort(stable=True)[: int(gradient.numel() * self.percent / 100)]
        pruned[smallest] = 0
        return pruned.view_as(gradient)
