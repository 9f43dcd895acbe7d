"""FC inversion: a fully connected layer with a bias on the pixels writes its input into its gradient."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor, nn

from glasshouse import checks
from glasshouse.attacks.base import InversionAttack, LabelUse, attacks
from glasshouse.attacks.targets import mean_gradient
from glasshouse.errors import AttackError, CapabilityError, ModelError
from glasshouse.models.batchnorm import batchnorm_mode
from glasshouse.registry import setting
from glasshouse.types import BatchNorm, ImageSpec, Observation, Progress, Reconstruction

GOLDEN = 0.6180339887498949
TOLERANCE = 1e-4


@dataclass(frozen=True, slots=True, eq=False)
class PixelLayer:
    """A linear layer whose input is ``factor * pixel + offset``, in the order of the pixels; both are (C, H, W)."""

    name: str
    factor: Tensor
    offset: Tensor

    def images(self, inputs: Tensor) -> Tensor:
        """Images (N, C, H, W) in [0, 1] behind inputs (N, pixels) of the layer."""
        pixels = (inputs.view(-1, *self.factor.shape) - self.offset) / self.factor
        return pixels.clamp(0, 1).float()


@attacks.register("fc_inversion")
@dataclass(frozen=True, kw_only=True)
class FCInversion(InversionAttack):
    """The input of a biased linear layer as the ratio of its weight and bias gradients: exact for one image."""

    paper: ClassVar[str] = (
        "Phong et al. 2018, Privacy-Preserving Deep Learning via Additively Homomorphic Encryption; "
        "Geiping et al. 2020, Inverting Gradients, Proposition 3.1"
    )
    label_use: ClassVar[LabelUse] = "unused"
    version: ClassVar[int] = 2

    rows: int | None = setting(None, "how many rows are used, those with the largest bias gradient; none for all")
    passes: int = setting(30, "passes of the fit over rows and pixels; one is enough for an untouched gradient")

    def __post_init__(self) -> None:
        if self.rows is not None:
            checks.at_least("rows", self.rows, 1)
        checks.at_least("passes", self.passes, 1)

    def refuse(self, model: nn.Module, seen: Observation) -> None:
        """Refuse batches, and models without a biased linear layer on the pixels."""
        super().refuse(model, seen)
        if seen.batch_size > 1:
            raise CapabilityError(
                f"Attack '{self.name}' needs a gradient of one image, not of {seen.batch_size}, which are mixed in "
                "every row: use a batch of 1, or invgrad."
            )
        if not pixel_layers(model, seen.image, seen.batchnorm):
            raise ModelError(
                f"Attack '{self.name}' needs a fully connected layer with a bias on the flattened pixels "
                f"({seen.image}), and this model has none: use invgrad or idlg, or a model such as mlp."
            )

    def reads(self, model: nn.Module, seen: Observation) -> set[str]:
        """The first layer's: whatever else is shared is not looked at."""
        layers = pixel_layers(model, seen.image, seen.batchnorm)
        return {f"{layers[0].name}.weight", f"{layers[0].name}.bias"} if layers else set()

    def run(self, model: nn.Module, seen: Observation, *, rng: torch.Generator, progress: Progress) -> Reconstruction:
        """Fit the one input that explains all rows, and undo the model's normalization."""
        layer = pixel_layers(model, seen.image, seen.batchnorm)[0]
        shared = mean_gradient(seen)
        weight, bias = shared[f"{layer.name}.weight"], shared[f"{layer.name}.bias"]
        rows = bias.abs().argsort(descending=True, stable=True)[: self.rows]
        inputs, misfit = layer_input(weight[rows], bias[rows], passes=self.passes)
        progress(1.0)
        return Reconstruction(layer.images(inputs[None]), misfit)


def layer_input(weight_gradient: Tensor, bias_gradient: Tensor, *, passes: int) -> tuple[Tensor, float]:
    """The input (features,) of a linear layer behind its gradients for one sample, and the misfit in [0, 1].

    Weight (units, features) and bias (units,) gradients are pull times (input, 1), a matrix of rank one. Without
    zeros this is its best approximation of rank one, the most likely one under Gaussian noise; entries that are
    exactly zero, as pruning leaves them, are taken as unknown.
    """
    joint = torch.cat([weight_gradient, bias_gradient[:, None]], 1).double()
    known = (joint != 0).double()
    pull, row = joint[:, -1], joint[0]
    for _ in range(passes):
        row = _ratio(joint.T @ pull, known.T @ pull.square())
        pull = _ratio(joint @ row, known @ row.square())
    if not bool(row[-1]):
        raise AttackError("The bias gradient of the layer is zero: there is nothing to divide by; use invgrad.")
    misfit = (known * (joint - torch.outer(pull, row))).norm() / joint.norm()
    return row[:-1] / row[-1], float(misfit)


def _ratio(above: Tensor, below: Tensor) -> Tensor:
    """Quotients, 0 where both are 0: nothing is known there."""
    return torch.where(below > 0, above / below, 0.0)


def pixel_layers(model: nn.Module, image: ImageSpec, mode: BatchNorm) -> list[PixelLayer]:
    """The linear layers with a bias that see the pixels themselves, normalized or not, in the order of their names.

    Three probes tell: what a layer sees of black, of white and of a third image must be one straight line per pixel.
    """
    size = image.channels * image.height * image.width
    layers = {name: module for name, module in model.named_modules() if _fits(module, size)}
    if not layers:
        return []
    uneven = (torch.arange(size) * GOLDEN).remainder(1).view(image.shape)
    probes = torch.zeros(image.shape), torch.ones(image.shape), uneven
    black, white, other = (_inputs(model, layers, probe, mode) for probe in probes)
    found = []
    for name in black.keys() & white.keys() & other.keys():
        offset, factor = black[name], white[name] - black[name]
        straight = torch.allclose(other[name], factor * uneven + offset, atol=TOLERANCE)
        if straight and bool((factor.abs() > TOLERANCE).all()):
            found.append(PixelLayer(name, factor.double(), offset.double()))
    return sorted(found, key=lambda layer: layer.name)


def _fits(module: nn.Module, pixels: int) -> bool:
    return (
        isinstance(module, nn.Linear)
        and module.in_features == pixels
        and module.bias is not None
        and module.weight.requires_grad
        and module.bias.requires_grad
    )


def _inputs(model: nn.Module, layers: dict[str, nn.Module], probe: Tensor, mode: BatchNorm) -> dict[str, Tensor]:
    """What each layer sees of a probe (C, H, W), in that shape; layers that see something else are left out."""
    caught: dict[str, Tensor] = {}

    def catch(name: str, module: nn.Module, given: tuple[Tensor, ...]) -> None:
        caught.setdefault(name, given[0])

    handles = [layer.register_forward_pre_hook(partial(catch, name)) for name, layer in layers.items()]
    twice = probe.expand(2, *probe.shape)  # one image alone has no batch statistics for some layers
    try:
        with torch.no_grad(), batchnorm_mode(model, mode):
            model(twice)
    finally:
        for handle in handles:
            handle.remove()
    return {name: seen[0].reshape(probe.shape) for name, seen in caught.items() if seen.numel() == twice.numel()}
