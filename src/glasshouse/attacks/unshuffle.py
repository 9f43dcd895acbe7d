"""Unshuffle: invert the gradient of a shuffled image, then undo the shuffle without its key."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from glasshouse.attacks.base import attacks
from glasshouse.attacks.invgrad import InvGrad
from glasshouse.attacks.unshuffling.grid import groups
from glasshouse.attacks.unshuffling.jigsaw import solve
from glasshouse.attacks.unshuffling.thumbnail import thumbnail
from glasshouse.attacks.unshuffling.unmix import unmix
from glasshouse.functional.shuffle import region_size
from glasshouse.types import Observation, Progress, Reconstruction

LARGEST_SEED = 2**31


@attacks.register("unshuffle")
@dataclass(frozen=True, kw_only=True)
class Unshuffle(InvGrad):
    """InvGrad, then channels matched by assignment and blocks put back by their seams (parts B and C on its result).

    It takes what it finds for a CSVAR image: of one that was not shuffled it makes a worse picture.
    """

    paper: ClassVar[str] = "our own adaptive attack on CSVAR, on top of Geiping et al. 2020"

    def run(self, model: nn.Module, seen: Observation, *, rng: torch.Generator, progress: Progress) -> Reconstruction:
        """Invert the gradient, then reorder the blocks of every image found."""
        found = super().run(model, seen, rng=rng, progress=progress)
        seeds = torch.randint(0, LARGEST_SEED, (seen.batch_size,), generator=rng).tolist()
        images = torch.stack([unshuffled(image, seed) for image, seed in zip(found.images, seeds, strict=True)])
        return dataclasses.replace(found, images=images)


def unshuffled(image: Tensor, seed: int, block_size: int | None = None) -> Tensor:
    """A shuffled image (C, H, W) in [0, 1] with channels un-mixed (B) and blocks put back (C)."""
    prior = thumbnail(image[None], region_size(*image.shape[1:]))[0].numpy()
    pixels = np.ascontiguousarray(image.numpy())
    places = groups(pixels, block_size)
    return torch.from_numpy(solve(unmix(pixels, places), prior, places, seed=seed))
