"""ResNet152 from torchvision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from glasshouse.models.base import Architecture, models
from glasshouse.models.stems import Stem, fit_resnet
from glasshouse.registry import setting
from glasshouse.types import ImageSpec


@models.register("resnet152")
@dataclass(frozen=True, kw_only=True)
class ResNet152(Architecture):
    """ResNet152 with a stem that suits small images, or the published one."""

    paper: ClassVar[str] = "He et al. 2016, Deep Residual Learning for Image Recognition"

    stem: Stem = setting("small", "small: keep the resolution for 28 to 64 px; imagenet: as published")

    def build(self, image: ImageSpec) -> nn.Module:
        """Return the bare network with fresh weights."""
        from torchvision.models import resnet152

        return fit_resnet(resnet152(weights=None, num_classes=image.classes), image, self.stem)
