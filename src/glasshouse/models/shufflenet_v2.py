"""ShuffleNetV2 (x1.0) from torchvision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from glasshouse.models.base import models
from glasshouse.models.vision import VisionNetwork, torchvision_network
from glasshouse.types import ImageSpec


@models.register("shufflenet_v2")
@dataclass(frozen=True, kw_only=True)
class ShuffleNetV2(VisionNetwork):
    """ShuffleNetV2 (x1.0) with a stem that suits small images, or the published one."""

    paper: ClassVar[str] = "Ma et al. 2018, ShuffleNet V2: Practical Guidelines for Efficient CNN Design"

    def build(self, image: ImageSpec) -> nn.Module:
        """Return the bare network with fresh weights."""
        network = torchvision_network("shufflenet_v2_x1_0", image)
        network.conv1[0] = self.first_convolution(image, 24, 3)
        network.maxpool = self.first_pool(network.maxpool)
        return network  # type: ignore[no-any-return]
