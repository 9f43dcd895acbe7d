"""What a curious server knows after a round: the weights it sent, those it got back, and how clients train."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from glasshouse.attacks import InversionAttack
from glasshouse.errors import CapabilityError
from glasshouse.types import BatchNorm, ImageSpec, Observation, Progress, Reconstruction, SharedUpdate, no_progress


def change_of(model: nn.Module, before: Mapping[str, Tensor], after: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """How a network's parameters changed between two states, before minus after."""
    names = [name for name, value in model.named_parameters() if value.requires_grad]
    return {name: before[name] - after[name] for name in names}


@dataclass(frozen=True, slots=True, eq=False)
class Sighting:
    """The change of the weights over a round, before minus after, and the local steps that made it."""

    change: Mapping[str, Tensor]
    local_steps: int
    learning_rate: float
    image: ImageSpec
    batch_size: int
    batchnorm: BatchNorm = "train"
    labels: Tensor | None = None

    @property
    def as_update(self) -> Observation:
        """What was seen: an update of several local steps; one step of SGD shares its gradient, and nothing less."""
        return self._observation("gradient" if self.local_steps == 1 else "update")

    @property
    def as_gradient(self) -> Observation:
        """The update taken for one large step: true to first order in the learning rate, and all that some need."""
        return self._observation("gradient")

    def _observation(self, kind: str) -> Observation:
        scale = 1 / (self.learning_rate * self.local_steps) if kind == "gradient" else 1.0
        shared = SharedUpdate({name: scale * value for name, value in self.change.items()})
        if kind == "update":
            shared = dataclasses.replace(
                shared, kind="update", local_steps=self.local_steps, learning_rate=self.learning_rate
            )
        return Observation((shared,), self.image, self.batch_size, self.batchnorm, self.labels)

    def attacked(
        self, attack: InversionAttack, model: nn.Module, *, rng: torch.Generator, progress: Progress = no_progress
    ) -> tuple[Reconstruction, str]:
        """Attack what was seen as it is where the attack can, else as one large step; say which of both."""
        try:
            attack.refuse(model, self.as_update)
            seen = self.as_update
        except CapabilityError:
            seen = self.as_gradient
        kind = seen.rounds[0].kind if self.local_steps > 1 else "one step"
        how = {"one step": "its gradient", "update": "its update", "gradient": "its update taken for one large step"}
        return attack(model, seen, rng=rng, progress=progress), how[kind]
