"""torchvision's networks with stems that let them look at images of 28 to 64 px."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from torch import nn

from glasshouse.models.base import Architecture
from glasshouse.registry import setting
from glasshouse.torchvision_cpu import allow_cpu_torchvision
from glasshouse.types import ImageSpec

#: ``small`` keeps the resolution at the start, ``imagenet`` is the published stem for 224 px.
Stem = Literal["small", "imagenet"]


def torchvision_network(factory: str, image: ImageSpec) -> Any:
    """A freshly initialised torchvision network with as many outputs as there are classes."""
    allow_cpu_torchvision()
    from torchvision import models as vision

    return getattr(vision, factory)(weights=None, num_classes=image.classes)


@dataclass(frozen=True, kw_only=True)
class VisionNetwork(Architecture):
    """A torchvision network whose first convolution is fitted to the images."""

    stem: Stem = setting("small", "small: keep the resolution for 28 to 64 px; imagenet: as published")

    def first_convolution(self, image: ImageSpec, outputs: int, kernel: int) -> nn.Conv2d:
        """The first convolution: 3x3 without stride for small images, else as published."""
        size, stride = (3, 1) if self.stem == "small" else (kernel, 2)
        return nn.Conv2d(image.channels, outputs, size, stride, padding=size // 2, bias=False)

    def first_pool(self, published: nn.Module) -> nn.Module:
        """The pool behind the first convolution: none for small images, else as published."""
        return nn.Identity() if self.stem == "small" else published


@dataclass(frozen=True, kw_only=True)
class VisionResNet(VisionNetwork):
    """A torchvision ResNet; subclasses name which one."""

    paper: ClassVar[str] = "He et al. 2016, Deep Residual Learning for Image Recognition"

    def build(self, image: ImageSpec) -> nn.Module:
        """Return the bare network with fresh weights."""
        network = torchvision_network(self.name, image)
        network.conv1 = self.first_convolution(image, 64, 7)
        network.maxpool = self.first_pool(network.maxpool)
        return network  # type: ignore[no-any-return]
