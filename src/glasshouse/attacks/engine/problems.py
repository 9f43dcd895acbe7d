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
class Matching:
    """Problems of one model with all that their steps need."""

    matcher: Matcher
    problems: tuple[Problem, ...]
    target: Stacked
    labels: Tensor
    objective: Objective

    @classmethod
    def of(
        cls, model: nn.Module, seen: Observation, problems: Sequence[Problem], objective: Objective | None = None
    ) -> Matching:
        """Stack problems that are alike in the shape of their images and in the parameters they are about."""
        matcher = matcher_for(model, seen.image.shape, seen.image.classes, seen.batch_size)
        order = {name: place for place, name in enumerate(parameter_names(model))}
        sorted_problems = [
            Problem({name: one.target[name] for name in sorted(one.target, key=order.__getitem__)}, one.labels)
            for one in problems
        ]
        return cls._stacked(matcher, sorted_problems, objective or Cosine())

    @classmethod
    def _stacked(cls, matcher: Matcher, problems: Sequence[Problem], objective: Objective) -> Matching:
        target = {name: torch.stack([one.target[name] for one in problems]) for name in problems[0].target}
        labels = torch.cat([one.labels for one in problems])
        return cls(matcher, tuple(problems), matcher.pack(target), labels, objective)

    def some(self, places: Sequence[int]) -> Matching:
        """Some of the problems, for when others are done."""
        return self._stacked(self.matcher, [self.problems[place] for place in places], self.objective)

    def step(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Objectives (problems,) and the derivative of their sum by images in [0, 1]."""
        return self.matcher.step(images, self.labels, self.target, self.objective)
