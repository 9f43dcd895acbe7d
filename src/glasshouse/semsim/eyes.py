"""Frozen ImageNet networks that judges look through: which teach, and which are kept for testing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glasshouse.functional.threads import in_batches
from glasshouse.models import trunks
from glasshouse.models.efficientnet_lite0 import efficientnet_lite0

MEAN = torch.tensor([0.485, 0.456, 0.406]).view(1, 3, 1, 1)
STD = torch.tensor([0.229, 0.224, 0.225]).view(1, 3, 1, 1)
GRID = 2  # the last convolution is averaged down to so many places each way
AT_ONCE = 16  # more at once waits for memory longer than it saves

#: How a judge tells: a probe names a class, a lineup picks an original.
Way = Literal["probe", "lineup"]


@dataclass(frozen=True, slots=True)
class Eye:
    """A network, the size of the images it looks at, and whether it may teach; those that may not, test.

    Probes ``look`` at the last layer; lineups ``compare`` a middle one in places: what a network averages over all of
    them names classes, but it tells few pictures apart once they are rough. ``version`` counts changes that change
    verdicts.
    """

    look: Callable[[Tensor], Tensor]
    compare: Callable[[Tensor], Tensor]
    size: int
    teaches: bool
    version: int = 4

    def __call__(self, images: Tensor, way: Way) -> Tensor:
        """Features (N, D) of grey or colour images (N, C, H, W) in [0, 1] by which judges tell in one way."""
        look = self.compare if way == "lineup" else self.look

        def seen(some: Tensor) -> Tensor:
            colour = some.expand(-1, 3, -1, -1)
            return look(F.interpolate(colour, size=(self.size,) * 2, mode="bilinear", antialias=True))

        return in_batches(seen, images, AT_ONCE)


def _in_places(maps: Callable[[Tensor], Tensor], grid: int) -> Callable[[Tensor], Tensor]:
    """The maps of a trunk, averaged down to a grid."""

    def look(images: Tensor) -> Tensor:
        return F.adaptive_avg_pool2d(maps(images), grid).flatten(1)

    return look


def _up_to(trunk: Callable[[], nn.Sequential], layer: int | None = None) -> Callable[[Tensor], Tensor]:
    """The maps of the first layers of a trunk, or of all, of images as torchvision's networks want them."""

    def maps(images: Tensor) -> Tensor:
        found: Tensor = trunk()[:layer]((images - MEAN) / STD)
        return found

    return maps


EYES: Mapping[str, Eye] = {
    "alexnet": Eye(
        look=_in_places(_up_to(lambda: trunks.alexnet().layers), GRID),
        compare=_in_places(_up_to(lambda: trunks.alexnet().layers, 8), 3),
        size=128,
        teaches=True,
    ),
    "vgg16": Eye(
        look=_in_places(_up_to(lambda: trunks.vgg16().layers), GRID),
        compare=_in_places(_up_to(lambda: trunks.vgg16().layers, 23), 4),
        size=96,
        teaches=True,
    ),
    "mobilenet_v2": Eye(
        look=_in_places(_up_to(trunks.mobilenet_v2), 1),
        compare=_in_places(_up_to(trunks.mobilenet_v2, 14), 4),
        size=128,
        teaches=True,
    ),
    "inception_v3": Eye(
        look=lambda images: trunks.inception_fid().look(images),
        compare=_in_places(lambda images: trunks.inception_fid().middle(images), GRID),
        size=192,
        teaches=False,
    ),
    "efficientnet_lite0": Eye(
        look=lambda images: efficientnet_lite0()(images),
        compare=_in_places(lambda images: efficientnet_lite0().middle(images), 4),
        size=128,
        teaches=False,
    ),
}
