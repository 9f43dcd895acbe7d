"""What a curious server knows after a round: the weights it sent, those it got back, and how clients train."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from glasshouse.attacks import InversionAttack
from glasshouse.errors import CapabilityError
from glasshouse.models.batchnorm import batchnorm_mode
from glasshouse.types import BatchNorm, ImageSpec, Observation, Progress, Reconstruction, SharedUpdate, no_progress


def change_of(model: nn.Module, before: Mapping[str, Tensor], after: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """How a network's parameters changed between two states, before minus after."""
    names = [name for name, value in model.named_parameters() if value.requires_grad]
    return {name: before[name] - after[name] for name in names}


#: Mean and variance of a batch in every call of batch norm.
Statistics = tuple[tuple[Tensor, Tensor], ...]


def statistics_of(
    model: nn.Module, before: Mapping[str, Tensor], after: Mapping[str, Tensor], shape: tuple[int, ...]
) -> Statistics | None:
    """What batch norm saw of a batch of that shape in one step, for running statistics travel with the weights.

    Nothing where they do not say: without batch norm, where a layer is called twice, or averages over all steps.
    """
    called: list[tuple[str, _BatchNorm, int]] = []
    names = {layer: name for name, layer in model.named_modules() if isinstance(layer, _BatchNorm)}

    def note(layer: _BatchNorm, inputs: tuple[Tensor, ...]) -> None:
        called.append((names[layer], layer, inputs[0].numel() // inputs[0].shape[1]))

    handles = [layer.register_forward_pre_hook(note) for layer in names]
    try:
        with torch.no_grad(), batchnorm_mode(model, "eval"):
            model(torch.zeros(shape))
    finally:
        for handle in handles:
            handle.remove()
    usable = all(layer.momentum is not None and layer.track_running_stats for _, layer, _ in called)
    if not called or not usable or len({name for name, _, _ in called}) < len(called):
        return None
    found = []
    for name, layer, values in called:
        share = float(layer.momentum or 0)
        mean, variance = (
            (after[f"{name}.{part}"] - (1 - share) * before[f"{name}.{part}"]) / share
            for part in ("running_mean", "running_var")
        )
        found.append((mean, (variance * (values - 1) / values).clamp(min=0)))  # which torch keeps unbiased
    return tuple(found)


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
    batch_statistics: Statistics | None = None
    public: Tensor | None = None
    defense: str = "none"

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
        return Observation(
            (shared,),
            self.image,
            self.batch_size,
            self.batchnorm,
            self.labels,
            public=self.public,
            defense=self.defense,
            batch_statistics=self.batch_statistics,
        )

    def few(self, images: int) -> Sighting:
        """The same as if no more images were behind it: an attack on it reconstructs so many and tries as many labels.

        Batch statistics are of all images.
        """
        if images >= self.batch_size:
            return self
        labels = None if self.labels is None else self.labels[:images]
        return dataclasses.replace(self, batch_size=images, labels=labels, batch_statistics=None)

    def attacked(
        self,
        attack: InversionAttack,
        model: nn.Module,
        *,
        images: int | None = None,
        rng: torch.Generator,
        progress: Progress = no_progress,
    ) -> tuple[Reconstruction, str]:
        """Attack what was seen as it is where the attack can, else as one large step; say which of both.

        With ``images`` at most so many are reconstructed, by an attack that could do with all.
        """
        few = self if images is None else self.few(images)
        try:
            attack.refuse(model, self.as_update)
            seen = few.as_update
        except CapabilityError:
            attack.refuse(model, self.as_gradient)
            seen = few.as_gradient
        kind = seen.rounds[0].kind if self.local_steps > 1 else "one step"
        how = {"one step": "its gradient", "update": "its update", "gradient": "its update taken for one large step"}
        return attack(model, seen, rng=rng, progress=progress), how[kind]
