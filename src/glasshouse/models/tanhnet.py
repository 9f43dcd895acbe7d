"""The small network of the GAN attack: smooth everywhere, so that its gradient leads a generator somewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from glasshouse import checks
from glasshouse.errors import ModelError
from glasshouse.models.base import Architecture, models
from glasshouse.registry import setting
from glasshouse.types import ImageSpec


@models.register("tanhnet")
@dataclass(frozen=True, kw_only=True)
class TanhNet(Architecture):
    """Two 5x5 convolutions with tanh and pooling by two, a linear layer with tanh, and one linear layer."""

    paper: ClassVar[str] = "after Hitaj et al. 2017, Deep Models Under the GAN"
    mean: ClassVar[float] = 0.5
    std: ClassVar[float] = 0.5

    width: int = setting(12, "channels of the first convolution; the second has twice as many")
    hidden: int = setting(200, "units of the hidden linear layer")

    def __post_init__(self) -> None:
        checks.between("width", self.width, 1, 4096)
        checks.between("hidden", self.hidden, 1, 65536)

    def build(self, image: ImageSpec) -> nn.Module:
        """Return the bare network with fresh weights."""
        if min(image.height, image.width) < 4:
            raise ModelError(
                f"tanhnet needs images of at least 4 px, not {image.height} x {image.width}: enlarge them."
            )
        layers: list[nn.Module] = []
        for inputs, outputs in ((image.channels, self.width), (self.width, 2 * self.width)):
            layers += [nn.Conv2d(inputs, outputs, 5, padding=2), *self.norm(outputs), nn.Tanh(), nn.MaxPool2d(2)]
        features = 2 * self.width * (image.height // 4) * (image.width // 4)
        return nn.Sequential(
            *layers, nn.Flatten(), nn.Linear(features, self.hidden), nn.Tanh(), nn.Linear(self.hidden, image.classes)
        )

    def norm(self, channels: int) -> list[nn.Module]:
        """What stands between a convolution and its tanh."""
        return []
