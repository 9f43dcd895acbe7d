"""CNN6 of the R-GAP paper: convolutions that can be undone one after another."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from torch import nn

from glasshouse import checks
from glasshouse.models.base import Architecture, models
from glasshouse.registry import setting
from glasshouse.types import ImageSpec

#: Channels as multiples of the width, kernel, stride and padding of every convolution.
CONVOLUTIONS = (
    (Fraction(1), 4, 2, 2),
    (Fraction(3), 3, 2, 1),
    (Fraction(3), 3, 1, 1),
    (Fraction(3), 3, 1, 1),
    (Fraction(16, 3), 3, 2, 1),
    (Fraction(32, 3), 3, 1, 1),
)


@models.register("rgapnet")
@dataclass(frozen=True, kw_only=True)
class RGAPNet(Architecture):
    """Six convolutions with LeakyReLU and one linear layer; no pooling, no batch norm, no bias unless asked for."""

    paper: ClassVar[str] = "Zhu and Blaschko 2021, R-GAP: Recursive Gradient Attack on Privacy (its CNN6)"

    width: int = setting(12, "channels of the first convolution; the others have 3 to 32/3 times as many")
    slope: float = setting(0.2, "slope of LeakyReLU below zero")
    bias: bool = setting(False, "whether convolutions and the linear layer have a bias")

    def __post_init__(self) -> None:
        checks.between("width", self.width, 1, 4096)
        checks.between("slope", self.slope, 1e-3, 1)

    def build(self, image: ImageSpec) -> nn.Module:
        """Return the bare network with fresh weights."""
        layers: list[nn.Module] = []
        channels, height, width = image.shape
        for multiple, kernel, stride, padding in CONVOLUTIONS:
            out = int(multiple * self.width)
            layers += [
                nn.Conv2d(channels, out, kernel, stride, padding, bias=self.bias),
                nn.LeakyReLU(self.slope),
            ]
            channels = out
            height, width = ((side + 2 * padding - kernel) // stride + 1 for side in (height, width))
        return nn.Sequential(*layers, nn.Flatten(), nn.Linear(channels * height * width, image.classes, bias=self.bias))
