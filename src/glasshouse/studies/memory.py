"""How many images fit into memory at once: a function of networks and images, so that it is the same in every run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from torch import nn

from glasshouse.attacks.base import InversionAttack
from glasshouse.attacks.engine.matcher import matcher_for
from glasshouse.errors import SettingError
from glasshouse.models.batchnorm import batchnorm_mode
from glasshouse.types import BatchNorm, ImageSpec

GIGABYTE = 10**9


def images_at_once(networks: Iterable[tuple[nn.Module, BatchNorm]], image: ImageSpec, gigabytes: float) -> int:
    """How many images fit, one at least, by what gradient matching counts for each on the hungriest network.

    Networks come with their batch-norm modes: in train mode the engine keeps more for an image than in eval mode.
    """
    each = max(_bytes_per_problem(model, mode, image) for model, mode in networks)
    return max(1, int(gigabytes * GIGABYTE // each))


def refuse_too_large(
    attacks: Iterable[tuple[str, InversionAttack]],
    networks: Sequence[tuple[nn.Module, BatchNorm]],
    image: ImageSpec,
    batch: int,
    gigabytes: float,
) -> None:
    """Refuse attacks to which one batch alone is too much: its images and restarts are worked on together in any case.

    Only attacks that match gradients by the engine are counted.
    """
    each = max(_bytes_of_batch(model, mode, image, batch) for model, mode in networks) / GIGABYTE
    for name, attack in attacks:
        needed = attack.at_once * each
        if attack.by_engine and needed > gigabytes:
            restarts = f" with {attack.at_once} restarts" if attack.at_once > 1 else ""
            fewer = f"restarts={int(gigabytes // each)}" if each <= gigabytes else "a smaller --batch, model or --size"
            raise SettingError(
                f"{name} takes about {needed:.2g} GB for one batch of {batch}{restarts}, which is worked on at once, "
                f"and --memory gives it {gigabytes:g}: use {fewer}, or --memory {math.ceil(100 * needed) / 100:g}."
            )


def _bytes_of_batch(model: nn.Module, mode: BatchNorm, image: ImageSpec, batch: int) -> int:
    """What one problem takes with so many images behind it, extrapolated: to try so many would take as much."""
    if batch == 1:
        return _bytes_per_problem(model, mode, image)
    two, three = (_bytes_per_problem(model, mode, image, group) for group in (2, 3))
    return two + (batch - 2) * max(0, three - two)  # less where the loop takes over, which counts none of its graphs


def _bytes_per_problem(model: nn.Module, mode: BatchNorm, image: ImageSpec, group: int = 1) -> int:
    with batchnorm_mode(model, mode):
        return matcher_for(model, image.shape, image.classes, group).bytes_per_problem(image.shape)
