"""The cosine distance where a shared gradient is not zero: the answer to pruning, and to Soteria."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from glasshouse.attacks.engine.objectives import Cosine
from glasshouse.functional.gradients import cosine_distance


class MaskedCosine(Cosine):
    """One minus the cosine of the angle between all gradients, in the entries that were shared."""

    @staticmethod
    def plain(first: Sequence[Tensor], second: Sequence[Tensor]) -> Tensor:
        """The distance of one problem, for autograd to derive."""
        return cosine_distance([own * (other != 0) for own, other in zip(first, second, strict=True)], second)

    def __call__(self, found: Sequence[Tensor], target: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """Distances and derivatives; what is zero in both has none."""
        return super().__call__([own.mul_(other != 0) for own, other in zip(found, target, strict=True)], target)
