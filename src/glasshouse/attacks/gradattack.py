"""GradAttack: InvGrad with a prior on the statistics that batch norm would see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Self

import torch
from torch import Tensor, nn

from glasshouse import checks
from glasshouse.attacks.base import Grid, attacks
from glasshouse.attacks.invgrad import InvGrad
from glasshouse.errors import CapabilityError, ModelError, SettingError
from glasshouse.functional.variation import total_variations
from glasshouse.models.batchnorm import Watched, batchnorm_layers, watched
from glasshouse.registry import setting
from glasshouse.types import Capability, Observation

#: Total variation and batch-norm weights of the authors' two settings.
PRESETS = {"strong": (0.1, 0.005), "realistic": (0.05, 0.001)}

#: What each kind of statistics takes, and where to get it.
NEEDED = {
    "running": (Capability.RUNNING_STATISTICS, "audit with --statistics running"),
    "exact": (Capability.BATCH_STATISTICS, "audit with --statistics batch, which gives them away"),
}


@attacks.register("gradattack")
@dataclass(frozen=True, kw_only=True)
class GradAttack(InvGrad):
    """InvGrad plus, for every batch norm layer, the distance of the guess's mean and variance to the known ones.

    ``preset`` sets both weights and the schedule as the authors did; ``own`` takes all as given.
    """

    paper: ClassVar[str] = "Huang et al. 2021, Evaluating Gradient Inversion Attacks and Defenses in Federated Learning"
    grid: ClassVar[Grid] = (*InvGrad.grid, ("bn", (1e-4, 1e-2)))
    version: ClassVar[int] = 4

    preset: Literal["strong", "realistic", "own"] = setting(  # type: ignore[assignment]
        "realistic", "strong (TV 0.1, batch norm 0.005), realistic (0.05, 0.001), or own weights and schedule"
    )
    bn: float = setting(1e-3, "weight of the batch-norm prior where preset=own")
    statistics: Literal["running", "exact"] = setting(
        "running", "the model's running statistics, or (a stronger attacker) the private batch's own"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.at_least("bn", self.bn, 0)
        checks.one_of("statistics", self.statistics, ("running", "exact"))
        if self.preset != "own" and (self.tv, self.bn) != (GradAttack.tv, GradAttack.bn):
            raise SettingError(f"tv and bn are set by preset={self.preset}: add preset=own to set them yourself.")

    @classmethod
    def presets(cls) -> tuple[str, ...]:
        """The known presets."""
        return (*PRESETS, "own")

    def tunable(self) -> Self:
        """The same weights and schedule, written out."""
        tv, bn = PRESETS.get(self.preset, (self.tv, self.bn))
        return replace(super().tunable(), tv=tv, bn=bn)

    def refuse(self, model: nn.Module, seen: Observation) -> None:
        """Refuse models whose batch norm tells nothing, and statistics that nobody told the attacker."""
        super().refuse(model, seen)
        if not any(layer.running_mean is not None for layer in batchnorm_layers(model)):
            raise ModelError(
                "Attack 'gradattack' uses the running statistics of batch norm, and this model has none: use invgrad."
            )
        needed, advice = NEEDED[self.statistics]
        if needed not in seen.offers:
            raise CapabilityError(
                f"Attack 'gradattack:statistics={self.statistics}' needs {needed}, which this attacker does not have: "
                f"{advice}, or use invgrad."
            )

    def prior(self, model: nn.Module, seen: Sequence[Observation], normalized: Tensor, images: Tensor) -> Tensor:
        """Roughness, and how far the statistics in every batch norm layer are from the known ones."""
        tv, bn = PRESETS.get(self.preset, (self.tv, self.bn))
        group = seen[0].batch_size
        measured = statistics(model, images, seen[0])
        known = exact_statistics(seen) if self.statistics == "exact" else running_statistics(measured)
        distances = [
            (one.mean - expected[0]).norm(dim=1) + (one.variance - expected[1]).norm(dim=1)
            for one, expected in zip(measured, known, strict=True)
            if expected is not None
        ]
        found: Tensor = tv * total_variations(normalized, group) + bn * sum(distances)
        return found


def statistics(model: nn.Module, images: Tensor, seen: Observation) -> list[Watched]:
    """What batch norm sees of the images of every problem (problems * batch, C, H, W), for all that are like ``seen``.

    In train mode problems go one by one: behind the first layer they would be normalized with strangers' images.
    """
    group = seen.batch_size
    each = []
    for part in images.split(group) if seen.batchnorm == "train" else (images,):
        with watched(model, group) as found:
            model(part)
        each.append(found)
    return [
        calls[0]._replace(
            mean=torch.cat([one.mean for one in calls]), variance=torch.cat([one.variance for one in calls])
        )
        for calls in zip(*each, strict=True)
    ]


def running_statistics(found: Sequence[Watched]) -> list[tuple[Tensor, Tensor] | None]:
    """What each call of batch norm expects; nothing where the layer has not seen any image yet.

    A fresh layer holds the mean 0 and the variance 1, to which a grey image comes nearer than a photograph does.
    """
    return [
        (one.running_mean, one.running_variance)
        if bool(one.running_mean.any() or (one.running_variance != 1).any())
        else None
        for one in found
    ]


def exact_statistics(seen: Sequence[Observation]) -> list[tuple[Tensor, Tensor] | None]:
    """Mean and variance (problems, channels) of each problem's private batch in every call of batch norm."""
    each = [one.batch_statistics or () for one in seen]
    return [
        (torch.stack([mean for mean, _ in layer]), torch.stack([variance for _, variance in layer]))
        for layer in zip(*each, strict=True)
    ]
