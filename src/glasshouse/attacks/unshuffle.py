"""Unshuffle: invert the gradient of a shuffled image, then undo the shuffle without its key."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn

from glasshouse import checks
from glasshouse.attacks.base import Grid, attacks
from glasshouse.attacks.invgrad import InvGrad
from glasshouse.attacks.unshuffling import inverse
from glasshouse.attacks.unshuffling.grid import Group, groups
from glasshouse.attacks.unshuffling.jigsaw import solve
from glasshouse.attacks.unshuffling.practice import Practice, as_a_client
from glasshouse.attacks.unshuffling.thumbnail import thumbnail
from glasshouse.attacks.unshuffling.unmix import unmix
from glasshouse.defenses.csvar import CSVAR
from glasshouse.devices import CPU
from glasshouse.errors import CapabilityError
from glasshouse.functional.shuffle import region_size
from glasshouse.registry import setting
from glasshouse.training import Samples
from glasshouse.types import Capability, Observation, Progress, Reconstruction

LARGEST_SEED = 2**31

#: Which part of the attack makes the picture.
Part = Literal["thumbnail", "unmixed", "jigsaw", "learned"]


@attacks.register("unshuffle")
@dataclass(frozen=True, kw_only=True)
class Unshuffle(InvGrad):
    """InvGrad, then one of the parts A to D on its result, with the shuffle's settings but not its key.

    It takes what it finds for a CSVAR image: of one that was not shuffled it makes a worse picture.
    """

    paper: ClassVar[str] = "our own adaptive attack on CSVAR, on top of Geiping et al. 2020"
    version: ClassVar[int] = 5
    grid: ClassVar[Grid] = (*InvGrad.grid, ("part", ("thumbnail", "unmixed")))

    part: Part = setting("jigsaw", "A thumbnail, B channels unmixed, B and then C jigsaw, or D a learned inverse")
    block_size: int | None = setting(None, "size of all blocks, if the shuffle fixed it; else adaptive")
    channel_wise: bool = setting(True, "whether the shuffle moved the channels apart")
    practice: int = setting(400, "steps of the learned inverse, on public images")

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.at_least("practice", self.practice, 1)
        if self.block_size is not None:
            checks.at_least("block_size", self.block_size, 1)

    @property
    def uses(self) -> frozenset[Capability]:
        """The learned inverse practises on public images; an audit without --public hands over crops of photographs."""
        return self.needs | {Capability.PUBLIC_IMAGES} if self.part == "learned" else self.needs

    def run_all(
        self, model: nn.Module, seen: Sequence[Observation], *, rngs: Sequence[torch.Generator], progress: Progress
    ) -> list[Reconstruction]:
        """Invert the gradients, then undo the shuffle of every image found."""
        found = [one.to(CPU) for one in super().run_all(model, seen, rngs=rngs, progress=progress)]
        part = {
            "thumbnail": self._thumbnails,
            "unmixed": self._unmixed,
            "jigsaw": self._reordered,
            "learned": self._inverted,
        }[self.part]
        made = part(seen[0].to(CPU), [one.images for one in found], rngs)
        return [dataclasses.replace(one, images=images) for one, images in zip(found, made, strict=True)]

    def _thumbnails(self, seen: Observation, found: list[Tensor], rngs: Sequence[torch.Generator]) -> list[Tensor]:
        """Part A."""
        return [thumbnail(images, region_size(*images.shape[2:])) for images in found]

    def _unmixed(self, seen: Observation, found: list[Tensor], rngs: Sequence[torch.Generator]) -> list[Tensor]:
        """Part B; channels that moved together need none."""
        if not self.channel_wise:
            return found
        return [
            torch.from_numpy(np.stack([unmix(image, groups(image, self.block_size)) for image in images.numpy()]))
            for images in found
        ]

    def _reordered(self, seen: Observation, found: list[Tensor], rngs: Sequence[torch.Generator]) -> list[Tensor]:
        """Parts B and C."""
        made = []
        for images, rng in zip(found, rngs, strict=True):
            seeds = torch.randint(0, LARGEST_SEED, (len(images),), generator=rng).tolist()
            solved = [
                unshuffled(image, seed, groups(image.numpy(), self.block_size), channel_wise=self.channel_wise)
                for image, seed in zip(images, seeds, strict=True)
            ]
            made.append(torch.stack(solved))
        return made

    def _inverted(self, seen: Observation, found: list[Tensor], rngs: Sequence[torch.Generator]) -> list[Tensor]:
        """Part D; the inverse depends on settings and public images alone, so that it is the same for every case."""
        if seen.public is None:  # crops of any photographs could be of those that are attacked
            raise CapabilityError(
                "Attack 'unshuffle:part=learned' practises on public images, and this attacker has none: "
                "hand some over, or choose another part."
            )
        public = seen.public
        shuffle = CSVAR(block_size=self.block_size, channel_wise=self.channel_wise)
        practice = Practice(
            Samples(public, torch.zeros(len(public), dtype=torch.long)),
            as_a_client(shuffle, torch.Generator().manual_seed(0)),
        )
        region = region_size(seen.image.height, seen.image.width)
        network = inverse.learn(practice, region, inverse.Training(steps=self.practice))
        return [inverse.invert(network, images) for images in found]


def unshuffled(image: Tensor, seed: int, places: list[Group] | None = None, *, channel_wise: bool = True) -> Tensor:
    """A shuffled image (C, H, W) in [0, 1] with channels un-mixed (B) and blocks put back (C).

    ``places`` are those of adaptive blocks unless given; channels that moved together need no un-mixing.
    """
    prior = thumbnail(image[None], region_size(*image.shape[1:]))[0].numpy()
    pixels = np.ascontiguousarray(image.numpy())
    known = groups(pixels) if places is None else places
    mixed = unmix(pixels, known) if channel_wise else pixels
    return torch.from_numpy(solve(mixed, prior, known, seed=seed))
