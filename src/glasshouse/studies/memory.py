"""How many images fit into memory at once: a function of networks and images, so that it is the same in every run."""

from __future__ import annotations

from collections.abc import Iterable

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
    each = max(_bytes_per_image(model, mode, image) for model, mode in networks)
    return max(1, int(gigabytes * GIGABYTE // each))


def refuse_too_many(attacks: Iterable[tuple[str, InversionAttack]], batch: int, fitting: int, gigabytes: float) -> None:
    """Refuse attacks whose restarts on one batch are more images than fit: they are worked on together in any case."""
    for name, attack in attacks:
        at_once = attack.at_once * batch
        if attack.at_once > 1 and at_once > fitting:
            raise SettingError(
                f"{name} works on {at_once} images at once ({attack.at_once} restarts of a batch of {batch}), and "
                f"{fitting} fit into --memory {gigabytes:g}: use restarts={max(fitting // batch, 1)}, or a larger "
                "--memory."
            )


def _bytes_per_image(model: nn.Module, mode: BatchNorm, image: ImageSpec) -> int:
    with batchnorm_mode(model, mode):
        return matcher_for(model, image.shape, image.classes, 1).bytes_per_problem(image.shape)
