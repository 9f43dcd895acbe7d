"""GradAttack: InvGrad with a prior on the statistics that batch norm would see."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from glasshouse import checks
from glasshouse.attacks.base import attacks
from glasshouse.attacks.invgrad import InvGrad
from glasshouse.errors import ModelError, SettingError
from glasshouse.functional.variation import total_variations
from glasshouse.models.batchnorm import batchnorm_layers
from glasshouse.registry import setting
from glasshouse.types import Capability, Observation

#: Total variation and batch-norm weights of the authors' two settings.
PRESETS = {"strong": (0.1, 0.005), "realistic": (0.05, 0.001)}


@attacks.register("gradattack")
@dataclass(frozen=True, kw_only=True)
class GradAttack(InvGrad):
    """InvGrad plus, for every batch norm layer, the distance of the guess's mean and variance to the running ones.

    ``preset`` sets both weights as the authors did; ``own`` takes ``tv`` and ``bn`` as given.
    """

    paper: ClassVar[str] = "Huang et al. 2021, Evaluating Gradient Inversion Attacks and Defenses in Federated Learning"
    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.GRADIENT, Capability.RUNNING_STATISTICS})
    version: ClassVar[int] = 1

    preset: Literal["strong", "realistic", "own"] = setting(
        "realistic", "strong (TV 0.1, batch norm 0.005), realistic (0.05, 0.001), or own weights"
    )
    bn: float = setting(1e-3, "weight of the batch-norm prior where preset=own")

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.one_of("preset", self.preset, (*PRESETS, "own"))
        checks.at_least("bn", self.bn, 0)
        if self.preset != "own" and (self.tv, self.bn) != (GradAttack.tv, GradAttack.bn):
            raise SettingError(f"tv and bn are set by preset={self.preset}: add preset=own to set them yourself.")

    def refuse(self, model: nn.Module, seen: Observation) -> None:
        """Refuse models whose batch norm tells nothing."""
        super().refuse(model, seen)
        if not any(layer.running_mean is not None for layer in batchnorm_layers(model)):
            raise ModelError(
                "Attack 'gradattack' uses the running statistics of batch norm, and this model has none: use invgrad."
            )

    def prior(self, model: nn.Module, seen: Observation, normalized: Tensor, images: Tensor) -> Tensor:
        """Roughness, and how far the statistics in every batch norm layer are from the running ones."""
        tv, bn = PRESETS.get(self.preset, (self.tv, self.bn))
        with statistics(model, seen.batch_size) as distances:
            model(images)
        return tv * total_variations(normalized, seen.batch_size) + bn * torch.stack(distances).sum(0)


@contextmanager
def statistics(model: nn.Module, group: int) -> Iterator[list[Tensor]]:
    """Gather, while a model runs, ||mean - running mean|| + ||var - running var|| of each batch norm, (problems,)."""
    found: list[Tensor] = []

    def measure(layer: _BatchNorm, inputs: tuple[Any, ...]) -> None:
        if layer.running_mean is None or layer.running_var is None:
            return
        x = inputs[0].unflatten(0, (-1, group)).transpose(1, 2).flatten(2)  # (problems, channels, values)
        mean, variance = x.mean(2), x.var(2, unbiased=False)
        found.append((mean - layer.running_mean).norm(dim=1) + (variance - layer.running_var).norm(dim=1))

    handles = [layer.register_forward_pre_hook(measure) for layer in batchnorm_layers(model)]
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()
