"""MobileNetV2 from torchvision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from glasshouse.models.base import Architecture, models
from glasshouse.models.stems import Stem, stem_convolution
from glasshouse.registry import setting
from glasshouse.types import ImageSpec


@models.register("mobilenet_v2")
@dataclass(frozen=True, kw_only=True)
class MobileNetV2(Architecture):
    """MobileNetV2 with a stem that suits small images, or the published one."""

    paper: ClassVar[str] = "Sandler et al. 2018, MobileNetV2: Inverted Residuals and Linear Bottlenecks"

    stem: Stem = setting("small", "small: keep the resolution for 28 to 64 px; imagenet: as published")

    def build(self, image: ImageSpec) -> nn.Module:
        """Return the bare network with fresh weights."""
        from torchvision.models import mobilenet_v2

        network: nn.Module = mobilenet_v2(weights=None, num_classes=image.classes)
        network.features[0][0] = stem_convolution(image, 32, self.stem, 3, 1)
        return network
