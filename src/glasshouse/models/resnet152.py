"""ResNet152 from torchvision."""

from __future__ import annotations

from dataclasses import dataclass

from glasshouse.models.base import models
from glasshouse.models.vision import VisionResNet


@models.register("resnet152")
@dataclass(frozen=True, kw_only=True)
class ResNet152(VisionResNet):
    """ResNet152 with a stem that suits small images, or the published one."""
