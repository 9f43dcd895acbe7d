"""How many images fit into memory at once: a function of networks and images, so that it is the same in every run."""

from __future__ import annotations

from collections.abc import Iterable

from torch import nn

from glasshouse.attacks.engine.matcher import matcher_for
from glasshouse.models.batchnorm import batchnorm_mode
from glasshouse.types import BatchNorm, ImageSpec

GIGABYTE = 10**9


def images_at_once(networks: Iterable[tuple[nn.Module, BatchNorm]], image: ImageSpec, gigabytes: float) -> int:
    """How many images fit, one at least, by what gradient matching counts for each on the hungriest network.

    Networks come with their batch-norm modes: in train mode the engine keeps more for an image than in eval mode.
    """
    each = max(_bytes_per_image(model, mode, image) for model, mode in networks)
    return max(1, int(gigabytes * GIGABYTE // each))


def _bytes_per_image(model: nn.Module, mode: BatchNorm, image: ImageSpec) -> int:
    with batchnorm_mode(model, mode):
        return matcher_for(model, image.shape, image.classes, 1).bytes_per_problem(image.shape)
