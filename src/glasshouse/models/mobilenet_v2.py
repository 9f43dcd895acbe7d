"""MobileNetV2 from torchvision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from glasshouse.models.base import models
from glasshouse.models.vision import VisionNetwork, torchvision_network
from glasshouse.types import ImageSpec


@models.register("mobilenet_v2")
@dataclass(frozen=True, kw_only=True)
class MobileNetV2(VisionNetwork):
    """MobileNetV2 with a stem that suits small images, or the published one."""

    paper: ClassVar[str] = "Sandler et al. 2018, MobileNetV2: Inverted Residuals and Linear Bottlenecks"

    def build(self, image: ImageSpec) -> nn.Module:
        """Return the bare network with fresh weights."""
        network = torchvision_network("mobilenet_v2", image)
        network.features[0][0] = self.first_convolution(image, 32, 3)
        return network  # type: ignore[no-any-return]
