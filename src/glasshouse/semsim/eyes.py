"""Frozen ImageNet networks that judges look through: which teach, and which are kept for testing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

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

    Where ``compare`` is given, lineups look at that: what a network averages over all places names classes, but it
    tells few pictures apart once they are rough. They practise on at least ``practice`` degraded copies. ``version``
    counts changes that change verdicts.
    """

    look: Callable[[Tensor], Tensor]
    size: int
    teaches: bool
    compare: Callable[[Tensor], Tensor] | None = None
    practice: int = 0
    version: int = 3

    def __call__(self, images: Tensor, way: Way) -> Tensor:
        """Features (N, D) of grey or colour images (N, C, H, W) in [0, 1] by which judges tell in one way."""
        look = self.compare if way == "lineup" and self.compare is not None else self.look
        found = []
        with torch.no_grad():
            for part in images.split(AT_ONCE):
                colour = part.expand(-1, 3, -1, -1)
                found.append(look(F.interpolate(colour, size=(self.size,) * 2, mode="bilinear", antialias=True)))
        return torch.cat(found)

    def see(self, images: Tensor, ways: Collection[Way]) -> dict[Way, Tensor]:
        """The same for several ways; what is alike for them is looked at once."""
        if self.compare is not None:
            return {way: self(images, way) for way in ways}
        return dict.fromkeys(ways, self(images, "probe"))


def _last_layer(trunk: Callable[[], trunks.Slices]) -> Callable[[Tensor], Tensor]:
    """The last tapped layer in a few places."""

    def look(images: Tensor) -> Tensor:
        return F.adaptive_avg_pool2d(trunk()((images - MEAN) / STD)[-1], GRID).flatten(1)

    return look


def _in_places(trunk: Callable[[Tensor], Tensor], grid: int) -> Callable[[Tensor], Tensor]:
    """The maps of a trunk, averaged down to a grid."""

    def look(images: Tensor) -> Tensor:
        return F.adaptive_avg_pool2d(trunk(images), grid).flatten(1)

    return look


def _mobilenet(images: Tensor) -> Tensor:
    found: Tensor = trunks.mobilenet_v2()((images - MEAN) / STD)
    return found.mean((2, 3))


EYES: Mapping[str, Eye] = {
    "alexnet": Eye(_last_layer(trunks.alexnet), 128, teaches=True),
    "vgg16": Eye(_last_layer(trunks.vgg16), 96, teaches=True),
    "mobilenet_v2": Eye(_mobilenet, 96, teaches=True),
    "inception_v3": Eye(
        lambda images: trunks.inception_fid().look(images),
        192,
        teaches=False,
        compare=_in_places(lambda images: trunks.inception_fid().middle(images), GRID),
        practice=256,
        version=4,
    ),
    "efficientnet_lite0": Eye(
        lambda images: efficientnet_lite0()(images),
        128,
        teaches=False,
        compare=_in_places(lambda images: efficientnet_lite0().middle(images), 4),
        practice=256,
        version=4,
    ),
}
