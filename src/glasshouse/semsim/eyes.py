"""Frozen ImageNet networks that judges look through: which teach, and which are kept for testing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from glasshouse.models import trunks
from glasshouse.models.efficientnet_lite0 import efficientnet_lite0

MEAN = torch.tensor([0.485, 0.456, 0.406]).view(1, 3, 1, 1)
STD = torch.tensor([0.229, 0.224, 0.225]).view(1, 3, 1, 1)
GRID = 2  # the last convolution is averaged down to so many places each way
AT_ONCE = 16  # more at once waits for memory longer than it saves


@dataclass(frozen=True, slots=True)
class Eye:
    """A network, the size of the images it looks at, and whether it may teach; those that may not, test."""

    look: Callable[[Tensor], Tensor]
    size: int
    teaches: bool

    def __call__(self, images: Tensor) -> Tensor:
        """Features (N, D) of grey or colour images (N, C, H, W) in [0, 1]."""
        found = []
        with torch.no_grad():
            for part in images.split(AT_ONCE):
                colour = part.expand(-1, 3, -1, -1)
                found.append(self.look(F.interpolate(colour, size=(self.size,) * 2, mode="bilinear", antialias=True)))
        return torch.cat(found)


def _last_layer(trunk: Callable[[], trunks.Slices]) -> Callable[[Tensor], Tensor]:
    """The last tapped layer in a few places."""

    def look(images: Tensor) -> Tensor:
        return F.adaptive_avg_pool2d(trunk()((images - MEAN) / STD)[-1], GRID).flatten(1)

    return look


def _mobilenet(images: Tensor) -> Tensor:
    found: Tensor = trunks.mobilenet_v2()((images - MEAN) / STD)
    return found.mean((2, 3))


EYES: Mapping[str, Eye] = {
    "alexnet": Eye(_last_layer(trunks.alexnet), 128, teaches=True),
    "vgg16": Eye(_last_layer(trunks.vgg16), 96, teaches=True),
    "mobilenet_v2": Eye(_mobilenet, 96, teaches=True),
    "inception_v3": Eye(lambda images: trunks.inception_fid().look(images), 192, teaches=False),
    "efficientnet_lite0": Eye(lambda images: efficientnet_lite0()(images), 128, teaches=False),
}
