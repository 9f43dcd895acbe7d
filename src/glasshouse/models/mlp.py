"""A perceptron with one hidden layer: the network that gives an image away exactly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import nn

from glasshouse import checks
from glasshouse.models.base import Architecture, models
from glasshouse.registry import setting
from glasshouse.types import ImageSpec

ACTIVATIONS = {"relu": nn.ReLU, "sigmoid": nn.Sigmoid, "tanh": nn.Tanh}


@models.register("mlp")
@dataclass(frozen=True, kw_only=True)
class MLP(Architecture):
    """The flattened image, one hidden layer with a bias, and one linear layer."""

    paper: ClassVar[str] = "Rumelhart et al. 1986, Learning Representations by Back-propagating Errors"

    width: int = setting(256, "units of the hidden layer")
    activation: Literal["relu", "sigmoid", "tanh"] = setting("relu", "what the hidden units apply")

    def __post_init__(self) -> None:
        checks.between("width", self.width, 1, 65536)
        checks.one_of("activation", self.activation, ACTIVATIONS)

    def build(self, image: ImageSpec) -> nn.Module:
        """Return the bare network with fresh weights."""
        pixels = image.channels * image.height * image.width
        return nn.Sequential(
            nn.Flatten(),
            nn.Linear(pixels, self.width),
            ACTIVATIONS[self.activation](),
            nn.Linear(self.width, image.classes),
        )
