"""InvGrad: match the direction of the gradient under a total-variation prior."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from glasshouse import checks
from glasshouse.attacks.base import InversionAttack, attacks, best, target_gradients
from glasshouse.attacks.labels import known_labels
from glasshouse.functional.gradients import cosine_distance, parameter_gradients
from glasshouse.functional.variation import total_variation
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
        labels = known_labels(model, seen, rng=rng)
        starts = [torch.randn((seen.batch_size, *seen.image.shape), generator=rng) for _ in range(self.restarts)]

        def attempt(number: int, start: Tensor) -> Reconstruction:
            return self._descend(model, seen, start, labels, lambda share: progress((number + share) / self.restarts))

        return best(self.name, [attempt(number, start) for number, start in enumerate(starts)])

    def _descend(
        self, model: nn.Module, seen: Observation, start: Tensor, labels: Tensor, progress: Progress
    ) -> Reconstruction:
        target = target_gradients(model, seen)
        mean, std = normalization(model)
        low, high = (0 - mean) / std, (1 - mean) / std
        dummy = start.clone().requires_grad_()
        optimizer = torch.optim.Adam([dummy], lr=self.lr)
        schedule = torch.optim.lr_scheduler.MultiStepLR(
            optimizer, [int(self.steps * share) for share in DECAY_AT], DECAY
        )

        def objective() -> Tensor:
            gradients = parameter_gradients(model, dummy * std + mean, labels, create_graph=True)
            return cosine_distance(gradients, target) + self.tv * total_variation(dummy)

        for step in range(self.steps):
            (pull,) = torch.autograd.grad(objective(), dummy)
            dummy.grad = pull.sign()
            optimizer.step()
            schedule.step()
            with torch.no_grad():
                dummy.clamp_(low, high)
            progress((step + 1) / self.steps)
        images = (dummy.detach() * std + mean).clamp(0, 1)
        return Reconstruction(images, float(objective().detach()), labels)
