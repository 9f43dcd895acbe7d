"""Image defenses as a comparison names them: a SPEC, and the resolution at which it acts."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from glasshouse import defenses
from glasshouse.attacks.unshuffling.practice import Protect, as_a_client
from glasshouse.defenses import DefendedClient, Defense
from glasshouse.errors import SettingError
from glasshouse.functional.shuffle import region_size
from glasshouse.training import Samples
from glasshouse.types import Stage

AT_ONCE = 256
ENLARGED = "@"


@dataclass(frozen=True, slots=True)
class Variant:
    """A defense, and the resolution at which it acts: ``SPEC`` at the images' own, ``SPEC@224`` enlarged.

    Enlarged images are protected, then averaged down again by area: what a client could train on, and what an
    attacker would do first. ``side`` is their longer side in pixels.
    """

    text: str
    defense: Defense
    side: int | None

    @classmethod
    def parse(cls, text: str) -> Variant:
        """Read a variant; one that does not act on images is refused."""
        spec, enlarged, given = text.partition(ENLARGED)
        defense = defenses.create(spec)
        if enlarged and not (given.isdecimal() and int(given)):
            raise SettingError(f"'{text}' acts at '{given}' pixels: write SPEC{ENLARGED}224, for example.")
        if not defense.stages <= {Stage.IMAGES}:
            raise SettingError(f"'{text}' acts on {defense.acts_on}: only defenses of images are compared here.")
        return cls(text, defense, int(given) if enlarged else None)

    @property
    def identity(self) -> tuple[object, ...]:
        """All that decides what it does to images: every setting, the resolution and the algorithms' versions."""
        return self.defense.complete_spec, self.side, self.defense.versions

    @property
    def moves_blocks(self) -> bool:
        """Whether blocks trade places inside regions of the images as they are sent, and nothing else happens."""
        return self.side is None and self.defense.moves_blocks

    def region(self, height: int, width: int) -> int:
        """Side of the regions in which values stay, in pixels of the images as they are sent."""
        large = self._enlarged(height, width)
        side = self.defense.region_side(*large) or region_size(*large)
        return max(round(side * max(height, width) / max(large)), 1)

    def protect(self, defense: Defense, samples: Samples, rng: torch.Generator) -> Tensor:
        """Protected images of the size of the given ones; enlarged ones are protected some at a time."""
        if self.side is None:
            return defense.on_samples(samples, rng=rng).images
        size = samples.images.shape[-2:]
        changed = (defense.on_samples(part, rng=rng).images for part in self._large(samples))
        return torch.cat([F.interpolate(part, size=size, mode="area") for part in changed])

    def partners(self, defense: Defense, samples: Samples) -> Tensor:
        """For each image (N,) the number of the group whose images may hold its values."""
        if self.side is None:
            return defense.partners(samples)
        return torch.cat([start * AT_ONCE + defense.partners(part) for start, part in enumerate(self._large(samples))])

    def practised(self, rng: torch.Generator) -> Protect:
        """The way in which an attacker protects images of its own."""
        return as_a_client(self.defense, rng, self.protect)

    def _enlarged(self, height: int, width: int) -> tuple[int, int]:
        """The size at which the defense acts."""
        if self.side is None:
            return height, width
        scale = self.side / max(height, width)
        return round(height * scale), round(width * scale)

    def _large(self, samples: Samples) -> Iterator[Samples]:
        """The samples enlarged, some at a time: all at once would need gigabytes."""
        size = self._enlarged(*samples.images.shape[-2:])
        for images, targets in zip(samples.images.split(AT_ONCE), samples.targets.split(AT_ONCE), strict=True):
            large = F.interpolate(images, size=size, mode="bilinear", align_corners=False)
            yield dataclasses.replace(samples, images=large, targets=targets)


class ResizedClient(DefendedClient):
    """A client that trains behind a defense which acts at a resolution of its own."""

    def __init__(self, variant: Variant, rng: torch.Generator) -> None:
        super().__init__(variant.defense, rng)
        self.variant = variant

    def samples(self, samples: Samples) -> Samples:
        """What the client trains on in the next epoch."""
        self.epoch += 1
        images = self.variant.protect(self.defense.in_epoch(self.epoch - 1), samples, self.rng)
        return dataclasses.replace(samples, images=images)
