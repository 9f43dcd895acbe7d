"""ResNet18 from torchvision."""

from __future__ import annotations

from dataclasses import dataclass

from glasshouse.models.base import models
from glasshouse.models.vision import VisionResNet


@models.register("resnet18")
@dataclass(frozen=True, kw_only=True)
class ResNet18(VisionResNet):
    """ResNet18 with a stem that suits small images, or the published one."""
