"""InvGrad: match the direction of the gradient under a total-variation prior."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from glasshouse import checks
from glasshouse.attacks.base import InversionAttack, attacks, best
from glasshouse.attacks.engine.problems import Matching, Problem
from glasshouse.attacks.labels import known_labels
from glasshouse.functional.variation import total_variations
from glasshouse.models import normalization
from glasshouse.registry import setting
from glasshouse.types import Observation, Progress, Reconstruction

DECAY_AT = (3 / 8, 5 / 8, 7 / 8)
DECAY = 0.1


@attacks.register("invgrad")
@dataclass(frozen=True, kw_only=True)
class InvGrad(InversionAttack):
    """Adam on the sign of the image gradient of 1 - cosine + TV, in the model's normalized pixel space."""

    paper: ClassVar[str] = "Geiping et al. 2020, Inverting Gradients"
    together: ClassVar[int] = 16
    version: ClassVar[int] = 2

    steps: int = setting(1000, "optimiser steps per restart (published: 4,000 to 24,000; SemSim: 8,000)")
    tv: float = setting(1e-4, "weight of total variation (published: 1e-6 to 1e-1; SemSim: 1e-4)")
    lr: float = setting(0.1, "step size in normalized pixels, divided by 10 at 3/8, 5/8 and 7/8 of the steps")
    restarts: int = setting(1, "independent starts; the one with the lowest final objective is kept")

    def __post_init__(self) -> None:
        checks.at_least("steps", self.steps, 1)
        checks.at_least("tv", self.tv, 0)
        checks.at_least("lr", self.lr, 1e-9)
        checks.at_least("restarts", self.restarts, 1)

    def run(self, model: nn.Module, seen: Observation, *, rng: torch.Generator, progress: Progress) -> Reconstruction:
        """Run every restart and keep the one the attacker likes best."""
        return self.run_all(model, [seen], rngs=[rng], progress=progress)[0]

    def run_all(
        self, model: nn.Module, seen: Sequence[Observation], *, rngs: Sequence[torch.Generator], progress: Progress
    ) -> list[Reconstruction]:
        """Run every restart of every observation at once; of each the one the attacker likes best is kept."""
        problems, starts = [], []
        for one, rng in zip(seen, rngs, strict=True):
            labels = known_labels(model, one, rng=rng)
            shape = (one.batch_size, *one.image.shape)
            starts += [torch.randn(shape, generator=rng) for _ in range(self.restarts)]
            problems += [Problem(one.rounds[0].tensors, labels)] * self.restarts
        tries = self._descend(model, seen[0], problems, torch.cat(starts), progress)
        return [best(self.name, tries[at : at + self.restarts]) for at in range(0, len(tries), self.restarts)]

    def _descend(
        self, model: nn.Module, seen: Observation, problems: list[Problem], start: Tensor, progress: Progress
    ) -> list[Reconstruction]:
        """Descend on all problems, each by itself: every step is taken pixel by pixel."""
        mean, std = normalization(model)
        low, high = (0 - mean) / std, (1 - mean) / std
        matching = Matching.of(model, seen, problems)
        dummy = start.clone().requires_grad_()
        optimizer = torch.optim.Adam([dummy], lr=self.lr)
        schedule = torch.optim.lr_scheduler.MultiStepLR(
            optimizer, [int(self.steps * share) for share in DECAY_AT], DECAY
        )

        def objectives() -> tuple[Tensor, Tensor]:
            """Of every problem its own, and the derivative of their sum by the normalized pixels."""
            distances, pull = matching.step(dummy.detach() * std + mean)
            priors, push = self._priors(model, seen, dummy.detach(), std, mean)
            return distances + priors, pull * std + push

        for step in range(self.steps):
            dummy.grad = objectives()[1].sign()
            optimizer.step()
            schedule.step()
            with torch.no_grad():
                dummy.clamp_(low, high)
            progress((step + 1) / self.steps)
        images = (dummy.detach() * std + mean).clamp(0, 1).split(seen.batch_size)
        final = objectives()[0].tolist()
        return [
            Reconstruction(own, value, problem.labels)
            for own, value, problem in zip(images, final, problems, strict=True)
        ]

    def _priors(
        self, model: nn.Module, seen: Observation, images: Tensor, std: Tensor, mean: Tensor
    ) -> tuple[Tensor, Tensor]:
        """What the attacker believes of images, per problem, and the derivative by the normalized pixels."""
        x = images.requires_grad_()
        each = self.prior(model, seen, x, x * std + mean)
        (derivative,) = torch.autograd.grad(each.sum(), x)
        return each.detach(), derivative

    def prior(self, model: nn.Module, seen: Observation, normalized: Tensor, images: Tensor) -> Tensor:
        """How unlikely each problem's images (problems * batch, C, H, W) are, (problems,): by default, how rough."""
        return self.tv * total_variations(normalized, seen.batch_size)
