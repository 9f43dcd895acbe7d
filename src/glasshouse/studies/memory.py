"""How many images fit into memory at once: a function of network and images, so that it is the same in every run."""

from __future__ import annotations

from torch import nn

from glasshouse.attacks.engine.matcher import matcher_for
from glasshouse.types import ImageSpec

GIGABYTE = 10**9


def images_at_once(model: nn.Module, image: ImageSpec, gigabytes: float) -> int:
    """How many images fit, one at least, by what gradient matching counts for each."""
    each = matcher_for(model, image.shape, image.classes, 1).bytes_per_problem(image.shape)
    return max(1, int(gigabytes * GIGABYTE // each))
