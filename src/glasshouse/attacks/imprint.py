"""Imprint: a malicious server sends a model whose first block sorts the images of a batch into bins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from glasshouse import checks
from glasshouse.attacks.base import InversionAttack, LabelUse, attacks
from glasshouse.attacks.fc_inversion import PixelLayer, pixel_layers
from glasshouse.attacks.targets import mean_gradient
from glasshouse.errors import ModelError
from glasshouse.models.imprinted import Imprint
from glasshouse.registry import setting
from glasshouse.types import Observation, Progress, Reconstruction

UNKNOWN = 0.5  # the grey of an image of which nothing was found
OUTSIDE = 0.01  # pixels may lie so far outside [0, 1], thresholds may be missed by so much


@attacks.register("imprint")
@dataclass(frozen=True, kw_only=True)
class ImprintAttack(InversionAttack):
    """Differences of adjacent bins' gradients: exact for every image that is alone in its bin."""

    paper: ClassVar[str] = "Fowl et al. 2022, Robbing the Fed: Directly Obtaining Private Data in Federated Learning"
    adversary: ClassVar[str] = "malicious server"
    label_use: ClassVar[LabelUse] = "unused"
    version: ClassVar[int] = 2

    floor: float = setting(1e-6, "bins whose gradient is a smaller share of the largest one are taken as empty")

    def __post_init__(self) -> None:
        checks.between("floor", self.floor, 0, 1)

    def refuse(self, model: nn.Module, seen: Observation) -> None:
        """Refuse models without an imprint block on the pixels, and blocks that training has changed."""
        super().refuse(model, seen)
        if not _intact(self._block(model, seen)[1]):
            raise ModelError(
                f"Attack '{self.name}' needs an imprint block as the server made it, but this one was trained, and its "
                "rows no longer measure the same: use fresh weights, which such a server sends anew in each round."
            )

    def reads(self, model: nn.Module, seen: Observation) -> set[str]:
        """The measuring layer's: whatever else is shared is not looked at."""
        layer, _ = self._block(model, seen)
        return {f"{layer.name}.weight", f"{layer.name}.bias"}

    def run(self, model: nn.Module, seen: Observation, *, rng: torch.Generator, progress: Progress) -> Reconstruction:
        """Read one image out of every bin that holds something; the objective is the share of images not read."""
        layer, block = self._block(model, seen)
        shared = mean_gradient(seen)
        weight, bias = (_differences(shared[f"{layer.name}.{kind}"].double()) for kind in ("weight", "bias"))
        thresholds = block.thresholds.double()
        strength = _strength(weight, bias, thresholds)
        largest = strength.argsort(descending=True, stable=True)[: seen.batch_size]
        held = largest[(strength[largest] > self.floor * strength.max()) & (bias[largest] != 0)]
        inputs = weight[held] / bias[held, None]
        images = layer.images(inputs)
        sound = _sound(layer, inputs, thresholds, held)
        missing = seen.batch_size - len(held)
        filling = images.mean(0) if len(held) else torch.full(seen.image.shape, UNKNOWN)
        progress(1.0)
        return Reconstruction(
            torch.cat([images, filling.expand(missing, *seen.image.shape)]), 1 - int(sound.sum()) / seen.batch_size
        )

    def _block(self, model: nn.Module, seen: Observation) -> tuple[PixelLayer, Imprint]:
        """The imprint block that sees the pixels, with its measuring layer."""
        blocks = {f"{name}.measure": part for name, part in model.named_modules() if isinstance(part, Imprint)}
        for layer in pixel_layers(model, seen.image, seen.batchnorm) if blocks else ():
            if layer.name in blocks:
                return layer, blocks[layer.name]
        raise ModelError(
            f"Attack '{self.name}' needs a model that a malicious server prepared, with an imprint block on the "
            "pixels, and this one has none: use the model imprinted, or invgrad against an honest server."
        )


def _intact(block: Imprint) -> bool:
    """Whether every row measures the same, against rising thresholds, and every bin has the same effect."""
    measure, back = block.measure.weight, block.back.weight
    same = bool((measure == measure[:1]).all()) and bool((back == back[:, :1]).all())
    return same and bool((block.thresholds.diff() > 0).all())


def _differences(gradient: Tensor) -> Tensor:
    """What each bin adds to the next lower threshold's gradient: (bins, ...)."""
    return gradient - torch.cat([gradient[1:], torch.zeros_like(gradient[:1])])


def _strength(weight: Tensor, bias: Tensor, thresholds: Tensor) -> Tensor:
    """How much gradient each bin holds: its share in the direction of a flat image at the bin's threshold, (bins,).

    Noise on single pixels averages out in it, so that occupied bins stand out also where noise was added.
    """
    along = bias + thresholds * weight.sum(1)
    return along.abs() / (1 + weight.shape[1] * thresholds.square()).sqrt()


def _sound(layer: PixelLayer, inputs: Tensor, thresholds: Tensor, held: Tensor) -> Tensor:
    """Which inputs can be single images: valid pixels, and as bright as their bin says. (found,) of bool."""
    ends = torch.cat([thresholds[1:], thresholds.new_full((1,), float("inf"))])
    mean = inputs.mean(1)
    bright = (mean > thresholds[held] - OUTSIDE) & (mean < ends[held] + OUTSIDE)
    pixels = (inputs.view(-1, *layer.factor.shape) - layer.offset) / layer.factor
    return bright & ((pixels - 0.5).abs() < 0.5 + OUTSIDE).flatten(1).all(1)
