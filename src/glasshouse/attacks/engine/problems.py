"""Many problems of one model, stacked for a matcher."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from glasshouse.attacks.engine.matcher import Matcher, Stacked, matcher_for
from glasshouse.attacks.engine.objectives import Cosine, Objective
from glasshouse.functional.gradients import parameter_names
from glasshouse.types import Observation


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """One shared gradient by parameter name, and the labels (N,) of the images behind it."""

    target: Mapping[str, Tensor]
    labels: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Problems that are worked on together: their gradients as the matcher wants them, and their labels."""

    target: Stacked
    labels: Tensor

    @classmethod
    def of(cls, matcher: Matcher, names: Sequence[str], problems: Sequence[Problem]) -> Batch:
        """Stack problems."""
        target = {name: torch.stack([one.target[name] for one in problems]) for name in names}
        return cls(matcher.pack(target), torch.cat([one.labels for one in problems]))


@dataclass(frozen=True, slots=True, eq=False)
class Matching:
    """Problems of one model with all that their steps need."""

    matcher: Matcher
    batches: tuple[Batch, ...]
    objective: Objective

    @classmethod
    def of(
        cls,
        model: nn.Module,
        seen: Observation,
        problems: Sequence[Problem],
        objective: Objective | None = None,
        *,
        memory: int | None = None,
    ) -> Matching:
        """Stack problems that are alike in the shape of their images.

        With ``memory``, in bytes, as many are worked on together as fit into it, but at least one; how they are split
        follows from that number, the model and the images alone.
        """
        matcher = matcher_for(model, seen.image.shape, seen.image.classes, seen.batch_size)
        names = [name for name in parameter_names(model) if name in problems[0].target]
        together = len(problems)
        if memory is not None:
            together = max(1, min(together, memory // matcher.bytes_per_problem(seen.image.shape)))
        parts = [problems[first : first + together] for first in range(0, len(problems), together)]
        batches = tuple(Batch.of(matcher, names, part) for part in parts)
        return cls(matcher, batches, objective or Cosine())

    def step(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Objectives (problems,) and the derivative of their sum by images in [0, 1]."""
        shares = images.split([len(batch.labels) for batch in self.batches])
        found = [
            self.matcher.step(own, batch.labels, batch.target, self.objective)
            for own, batch in zip(shares, self.batches, strict=True)
        ]
        return torch.cat([values for values, _ in found]), torch.cat([derivatives for _, derivatives in found])
