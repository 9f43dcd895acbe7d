"""A gradient of any length as a few numbers: feature hashing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Hashing:
    """Adds every entry, with a sign of its own, to one of ``size`` sums (Weinberger et al. 2009).

    ``bins`` and ``signs`` are as long as all tensors together. Inner products are kept on average.
    """

    size: int
    bins: Tensor
    signs: Tensor

    @classmethod
    def drawn(cls, length: int, size: int, rng: torch.Generator) -> Hashing:
        """Draw bins and signs for gradients with ``length`` entries."""
        bins = torch.randint(size, (length,), generator=rng)
        return cls(size, bins, torch.randint(0, 2, (length,), generator=rng) * 2.0 - 1)

    def __call__(self, gradients: Mapping[str, Tensor]) -> Tensor:
        """The sums of one gradient: (size,)."""
        flat = torch.cat([tensor.flatten() for tensor in gradients.values()])
        return torch.zeros(self.size).index_add_(0, self.bins, flat * self.signs)
