"""DenseNet121 from torchvision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from glasshouse.models.base import models
from glasshouse.models.vision import VisionNetwork, torchvision_network
from glasshouse.types import ImageSpec


@models.register("densenet121")
@dataclass(frozen=True, kw_only=True)
class DenseNet121(VisionNetwork):
    """DenseNet121 with a stem that suits small images, or the published one."""

    paper: ClassVar[str] = "Huang et al. 2017, Densely Connected Convolutional Networks"

    def build(self, image: ImageSpec) -> nn.Module:
        """Return the bare network with fresh weights."""
        network = torchvision_network("densenet121", image)
        network.features.conv0 = self.first_convolution(image, 64, 7)
        network.features.pool0 = self.first_pool(network.features.pool0)
        return network  # type: ignore[no-any-return]
