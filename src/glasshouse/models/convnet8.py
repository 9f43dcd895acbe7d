"""ConvNet8, the plain convolutional network of the SemSim and ATS papers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from glasshouse import checks
from glasshouse.errors import ModelError
from glasshouse.models.base import Architecture, models
from glasshouse.registry import setting
from glasshouse.types import ImageSpec

MULTIPLES = (1, 2, 2, 4, 4, 4, 4, 4)
POOL_AFTER = (6, 8)
SMALLEST = 9


@models.register("convnet8")
@dataclass(frozen=True, kw_only=True)
class ConvNet8(Architecture):
    """Eight 3x3 convolutions with batch norm and ReLU, max-pool 3 after the sixth and eighth, one linear layer."""

    paper: ClassVar[str] = (
        "Gao et al. 2021, Privacy-preserving Collaborative Learning with Automatic Transformation Search"
    )

    width: int = setting(64, "channels of the first convolution; the others have two or four times as many")

    def __post_init__(self) -> None:
        checks.between("width", self.width, 1, 4096)

    def build(self, image: ImageSpec) -> nn.Module:
        """Return the bare network with fresh weights."""
        if min(image.height, image.width) < SMALLEST:
            raise ModelError(
                f"convnet8 needs images of at least {SMALLEST} px, not {image}: use lenet or larger images."
            )
        layers: list[nn.Module] = []
        channels = image.channels
        for number, multiple in enumerate(MULTIPLES, start=1):
            out = multiple * self.width
            layers += [nn.Conv2d(channels, out, 3, padding=1), nn.BatchNorm2d(out), nn.ReLU()]
            if number in POOL_AFTER:
                layers.append(nn.MaxPool2d(3))
            channels = out
        features = channels * (image.height // 9) * (image.width // 9)
        return nn.Sequential(*layers, nn.Flatten(), nn.Linear(features, image.classes))
