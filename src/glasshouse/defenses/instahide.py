"""InstaHide: mix images, then flip the sign of every pixel by chance."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from glasshouse.defenses.base import defenses
from glasshouse.defenses.mixup import Mixup
from glasshouse.registry import setting
from glasshouse.training import Samples


@defenses.register("instahide")
@dataclass(frozen=True, kw_only=True)
class InstaHide(Mixup):
    """Mixes every image with k - 1 others of the same client, and turns half of its values, by chance, to 1 - x."""

    paper: ClassVar[str] = "InstaHide: Instance-hiding Schemes for Private Distributed Learning"

    k: int = setting(4, "images in a mixture, its own among them (published: 4)")

    def on_samples(self, samples: Samples, *, rng: torch.Generator) -> Samples:
        """Return mixtures of the images with a mask of signs each, and class probabilities as targets.

        A sign belongs to values around 0: an image is taken as 2x - 1 and brought back after the flip, so that a
        flipped value is 1 - x and stays in [0, 1].
        """
        found = super().on_samples(samples, rng=rng)
        flipped = torch.randint(2, found.images.shape, generator=rng, dtype=torch.bool)
        return replace(found, images=torch.where(flipped, 1 - found.images, found.images))
