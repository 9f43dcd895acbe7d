"""Unshuffle: invert the gradient of a shuffled image, then undo the shuffle without its key."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from glasshouse.attacks.base import attacks
from glasshouse.attacks.invgrad import InvGrad
from glasshouse.attacks.unshuffling.grid import Group, groups
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

    def run_all(
        self, model: nn.Module, seen: Sequence[Observation], *, rngs: Sequence[torch.Generator], progress: Progress
    ) -> list[Reconstruction]:
        """Invert the gradients, then reorder the blocks of every image found."""
        found = super().run_all(model, seen, rngs=rngs, progress=progress)
        return [_reordered(one, rng) for one, rng in zip(found, rngs, strict=True)]


def _reordered(found: Reconstruction, rng: torch.Generator) -> Reconstruction:
    seeds = torch.randint(0, LARGEST_SEED, (len(found.images),), generator=rng).tolist()
    images = [unshuffled(image, seed) for image, seed in zip(found.images, seeds, strict=True)]
    return dataclasses.replace(found, images=torch.stack(images))


def unshuffled(image: Tensor, seed: int, places: list[Group] | None = None, *, channel_wise: bool = True) -> Tensor:
    """A shuffled image (C, H, W) in [0, 1] with channels un-mixed (B) and blocks put back (C).

    ``places`` are those of adaptive blocks unless given; channels that moved together need no un-mixing.
    """
    prior = thumbnail(image[None], region_size(*image.shape[1:]))[0].numpy()
    pixels = np.ascontiguousarray(image.numpy())
    known = groups(pixels) if places is None else places
    mixed = unmix(pixels, known) if channel_wise else pixels
    return torch.from_numpy(solve(mixed, prior, known, seed=seed))
