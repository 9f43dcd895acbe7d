"""The sigmoid LeNet of the DLG paper: small, smooth and very leaky."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from glasshouse import checks
from glasshouse.models.base import Architecture, models
from glasshouse.registry import setting
from glasshouse.types import ImageSpec


@models.register("lenet")
@dataclass(frozen=True, kw_only=True)
class LeNet(Architecture):
    """Three strided 5x5 convolutions with sigmoids and one linear layer, weights uniform in [-0.5, 0.5]."""

    paper: ClassVar[str] = "Zhu et al. 2019, Deep Leakage from Gradients"
    mean: ClassVar[float] = 0.0
    std: ClassVar[float] = 1.0

    width: int = setting(12, "channels of every convolution")
    spread: float = setting(0.5, "weights start uniform in [-spread, spread]")

    def __post_init__(self) -> None:
        checks.between("width", self.width, 1, 4096)
        checks.at_least("spread", self.spread, 1e-6)

    def build(self, image: ImageSpec) -> nn.Module:
        """Return the bare network with fresh weights."""
        strides = (2, 2, 1)
        inputs = (image.channels, self.width, self.width)
        layers: list[nn.Module] = []
        for channels, stride in zip(inputs, strides, strict=True):
            layers += [nn.Conv2d(channels, self.width, 5, stride, padding=2), nn.Sigmoid()]
        features = self.width * -(-image.height // 4) * -(-image.width // 4)
        network = nn.Sequential(*layers, nn.Flatten(), nn.Linear(features, image.classes))
        for parameter in network.parameters():
            nn.init.uniform_(parameter, -self.spread, self.spread)
        return network
