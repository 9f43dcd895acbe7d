"""ResNet20 for small images, and its wide version ResNet20-4."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn
from torch.nn import functional as F

from glasshouse import checks
from glasshouse.models.base import Architecture, models
from glasshouse.registry import setting
from glasshouse.types import ImageSpec


class BasicBlock(nn.Module):
    """Two 3x3 convolutions beside a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, images: Tensor) -> Tensor:
        """Features of the block."""
        inner = F.relu(self.bn1(self.conv1(images)))
        return F.relu(self.bn2(self.conv2(inner)) + self.shortcut(images))


@models.register("resnet20")
@dataclass(frozen=True, kw_only=True)
class ResNet20(Architecture):
    """Three stages of three basic blocks behind a 3x3 stem; width 16 is ResNet20, width 64 is ResNet20-4."""

    paper: ClassVar[str] = "He et al. 2016, Deep Residual Learning for Image Recognition"

    width: int = setting(16, "channels of the first stage (16 = ResNet20, 64 = ResNet20-4)")

    def __post_init__(self) -> None:
        checks.between("width", self.width, 1, 4096)

    def build(self, image: ImageSpec) -> nn.Module:
        """Return the bare network with fresh weights."""
        width = self.width
        layers: list[nn.Module] = [
            nn.Conv2d(image.channels, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
        ]
        channels = width
        for stage, out in enumerate((width, 2 * width, 4 * width)):
            for block in range(3):
                layers.append(BasicBlock(channels, out, 2 if stage and not block else 1))
                channels = out
        return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, image.classes))
