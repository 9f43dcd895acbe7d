"""DenseNet121 from torchvision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from glasshouse.models.base import Architecture, models
from glasshouse.models.stems import Stem, stem_convolution
from glasshouse.registry import setting
from glasshouse.types import ImageSpec


@models.register("densenet121")
@dataclass(frozen=True, kw_only=True)
class DenseNet121(Architecture):
    """DenseNet121 with a stem that suits small images, or the published one."""

    paper: ClassVar[str] = "Huang et al. 2017, Densely Connected Convolutional Networks"

    stem: Stem = setting("small", "small: keep the resolution for 28 to 64 px; imagenet: as published")

    def build(self, image: ImageSpec) -> nn.Module:
        """Return the bare network with fresh weights."""
        from torchvision.models import densenet121

        network: nn.Module = densenet121(weights=None, num_classes=image.classes)
        features = network.features
        features.conv0 = stem_convolution(image, 64, self.stem, 7, 3)
        if self.stem == "small":
            features.pool0 = nn.Identity()
        return network
