"""ShuffleNetV2 (x1.0) from torchvision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from glasshouse.models.base import Architecture, models
from glasshouse.models.stems import Stem, stem_convolution
from glasshouse.registry import setting
from glasshouse.types import ImageSpec


@models.register("shufflenet_v2")
@dataclass(frozen=True, kw_only=True)
class ShuffleNetV2(Architecture):
    """ShuffleNetV2 (x1.0) with a stem that suits small images, or the published one."""

    paper: ClassVar[str] = "Ma et al. 2018, ShuffleNet V2: Practical Guidelines for Efficient CNN Architecture Design"

    stem: Stem = setting("small", "small: keep the resolution for 28 to 64 px; imagenet: as published")

    def build(self, image: ImageSpec) -> nn.Module:
        """Return the bare network with fresh weights."""
        from torchvision.models import shufflenet_v2_x1_0

        network: nn.Module = shufflenet_v2_x1_0(weights=None, num_classes=image.classes)
        network.conv1[0] = stem_convolution(image, 24, self.stem, 3, 1)
        if self.stem == "small":
            network.maxpool = nn.Identity()
        return network
