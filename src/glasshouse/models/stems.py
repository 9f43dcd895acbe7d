"""Stems that let torchvision's larger networks look at images of 28 to 64 px."""

from __future__ import annotations

from typing import Literal

from torch import nn

from glasshouse.torchvision_cpu import allow_cpu_torchvision
from glasshouse.types import ImageSpec

allow_cpu_torchvision()

#: ``small`` keeps the resolution at the start, ``imagenet`` is the published stem for 224 px.
Stem = Literal["small", "imagenet"]


def stem_convolution(image: ImageSpec, outputs: int, stem: Stem, kernel: int, padding: int) -> nn.Conv2d:
    """The first convolution: 3x3 without stride for small images, else as published."""
    if stem == "small":
        return nn.Conv2d(image.channels, outputs, 3, stride=1, padding=1, bias=False)
    return nn.Conv2d(image.channels, outputs, kernel, stride=2, padding=padding, bias=False)


def fit_resnet(network: nn.Module, image: ImageSpec, stem: Stem) -> nn.Module:
    """Give a torchvision ResNet the stem that suits the images."""
    network.conv1 = stem_convolution(image, 64, stem, 7, 3)
    if stem == "small":
        network.maxpool = nn.Identity()
    return network
