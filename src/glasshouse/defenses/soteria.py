"""Soteria: hide what the classifier's gradient says about the features it sees."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from glasshouse import checks
from glasshouse.defenses.base import Defense, defenses
from glasshouse.errors import ModelError
from glasshouse.registry import setting
from glasshouse.training import Computed, Samples, plain_gradients
from glasshouse.types import Stage

IMAGES_AT_ONCE = 16  # copies of images that are sent back through the network together


@defenses.register("soteria")
@dataclass(frozen=True, kw_only=True)
class Soteria(Defense):
    """Sets the classifier's weight gradient to zero for those features whose loss moves a reconstruction most.

    Without a feature r what can be reconstructed is off by about |r| / |dr/dx|, so the smallest |dr/dx| / |r| go.
    """

    paper: ClassVar[str] = (
        "Sun et al. 2021, Soteria: Provable Defense against Privacy Leakage in Federated Learning "
        "from Representation Perspective"
    )
    stages: ClassVar[frozenset[Stage]] = frozenset({Stage.COMPUTING})

    percent: float = setting(80.0, "share of the classifier's input features that are pruned (authors' code: 1, 60)")

    def __post_init__(self) -> None:
        checks.between("percent", self.percent, 0, 100)

    @property
    def acts_on(self) -> str:
        """Where this defense acts, for tables."""
        return "gradient of the classifier"

    def compute(self, model: nn.Module, samples: Samples, *, rng: torch.Generator) -> Computed:
        """Compute the gradient of a batch, with the columns of the pruned features set to zero."""
        name = classifier(model)
        found = plain_gradients(model, samples)
        scores = sensitivities(model, name, samples.images)
        pruned = scores.argsort(stable=True)[: int(len(scores) * self.percent / 100)]
        weight = found.gradients[f"{name}.weight"].clone()
        weight[:, pruned] = 0
        return Computed(found.loss, {**found.gradients, f"{name}.weight": weight})


def classifier(model: nn.Module) -> str:
    """The name of a network's last linear layer that is trained."""
    layers: list[str] = [
        name for name, layer in model.named_modules() if isinstance(layer, nn.Linear) and _trained(layer)
    ]
    if not layers:
        raise ModelError(
            "soteria prunes the gradient of the last linear layer, and this model trains none: "
            "use a model that ends in torch.nn.Linear, or another defense."
        )
    return layers[-1]


def sensitivities(model: nn.Module, layer: str, images: Tensor) -> Tensor:
    """The sum over a batch of |dr/dx| / |r| for every feature r that a layer sees: (features,).

    A feature of zero that the image does not move, as behind a ReLU, has zero.
    """
    inputs = images.detach().clone().requires_grad_()
    features = _features(model, layer, inputs)
    count = features.shape[1]
    norms = torch.empty_like(features)
    for part in torch.arange(count).split(max(1, IMAGES_AT_ONCE // len(images))):
        chosen = torch.zeros(len(part), *features.shape, device=features.device)
        chosen[torch.arange(len(part)), :, part] = 1
        (moved,) = torch.autograd.grad(features, inputs, chosen, retain_graph=True, is_grads_batched=True)
        norms[:, part] = moved.flatten(2).norm(dim=2).T
    smallest = torch.finfo(features.dtype).tiny
    return (norms / features.detach().abs().clamp_min(smallest)).sum(0).detach()


def _features(model: nn.Module, layer: str, images: Tensor) -> Tensor:
    """What a layer sees of images; a copy of the network is asked, so that its statistics stay as they are."""
    seen: list[Tensor] = []

    def look(module: nn.Module, inputs: tuple[Any, ...]) -> None:
        seen.append(inputs[0])

    twin = copy.deepcopy(model).requires_grad_(False)
    twin.get_submodule(layer).register_forward_pre_hook(look)
    twin(images)
    if len(seen) != 1 or seen[0].ndim != 2:
        raise ModelError(
            f"soteria needs a model that calls its last linear layer, {layer}, once with features (N, features), and "
            f"this one calls it with {[tuple(one.shape) for one in seen]}: use another defense."
        )
    return seen[0]


def _trained(layer: nn.Linear) -> bool:
    return layer.weight.requires_grad
