"""CSVAR, hardened: regions are averaged with and traded for those of other images of a class, blocks are mirrored."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from glasshouse import checks
from glasshouse.defenses.base import Defense, defenses
from glasshouse.defenses.csvar import CSVAR, Array, check_epoch, check_key, drawn_key, region_size
from glasshouse.registry import secret, setting
from glasshouse.training import Samples
from glasshouse.types import Stage

PURPOSE = b"csvar-exchange-2"


@defenses.register("csvar_exchange")
@dataclass(frozen=True, kw_only=True)
class CSVARExchange(Defense):
    """Shuffles images so that no single one of them holds the picture.

    Images of a class form groups of ``k``. Every region of every channel becomes the mean of ``blend`` members'
    regions, as k-Same does with whole faces (Newton 2005). Groups and means stay the same for all epochs: if they
    changed, what recurs most often at a place would be the image's own, and means of changing members could be
    solved for them. In each epoch every region of every channel goes to a random member of its group; then comes
    CSVAR's shuffle, blocks are mirrored at random, and a little noise blurs exact sums.
    """

    paper: ClassVar[str] = "our own extension of CSVAR (Enhancing Visual Privacy in Federated Learning)"
    stages: ClassVar[frozenset[Stage]] = frozenset({Stage.IMAGES})
    version: ClassVar[int] = 2

    k: int = setting(6, "images of a class among which regions trade places")
    blend: int = setting(3, "members of a group whose regions are averaged, at most all; 1 averages nothing")
    mirror: bool = setting(True, "blocks of S/4 pixels are mirrored at random")
    negative: bool = setting(False, "half of the channels of each image are negatives, the same ones in every epoch")
    dither: float = setting(4.0, "half-width of the uniform noise on pixels, on the 0 to 255 scale")
    key: bytes | None = secret("the secret; drawn by the audit's generator when not set")
    epoch: int = setting(0, "which epoch's version is made")

    def __post_init__(self) -> None:
        checks.at_least("k", self.k, 1)
        checks.at_least("blend", self.blend, 1)
        checks.at_least("dither", self.dither, 0)
        check_epoch(self.epoch)
        if self.key is not None:
            check_key(self.key)

    @property
    def acts_on(self) -> str:
        """Where this defense acts, for tables."""
        return "images"

    def with_key(self, rng: torch.Generator) -> CSVARExchange:
        """The same under a key that stays."""
        return self if self.key is not None else dataclasses.replace(self, key=drawn_key(rng))

    def in_epoch(self, epoch: int) -> CSVARExchange:
        """The same in another epoch."""
        return dataclasses.replace(self, epoch=epoch)

    def on_images(self, images: Tensor, *, rng: torch.Generator) -> Tensor:
        """Protect images whose classes are not known, as if they were of one."""
        return self.on_samples(Samples(images, torch.zeros(len(images), dtype=torch.long)), rng=rng).images

    def on_samples(self, samples: Samples, *, rng: torch.Generator) -> Samples:
        """Protect images, trading regions among those of one class."""
        own = self.with_key(rng)
        images, ids = samples.images.detach().cpu().numpy(), own._identities(samples)
        mixed = own._exchanged(images, groups(_labels(samples), ids, self.k))
        shuffled = CSVAR(key=own.key, epoch=self.epoch).on_images(torch.from_numpy(mixed), rng=rng).numpy()
        changed = own._negated(own._mirrored(shuffled), ids)
        noise = own._random(b"dither").uniform(-self.dither / 255, self.dither / 255, changed.shape)
        protected = np.clip(changed + noise, 0, 1).astype(images.dtype)
        return dataclasses.replace(samples, images=torch.from_numpy(protected).to(samples.images.device))

    def partners(self, samples: Samples) -> Tensor:
        """For each image the number of its group."""
        numbers = torch.empty(len(samples.images), dtype=torch.long)
        for number, members in enumerate(groups(_labels(samples), self._identities(samples), self.k)):
            numbers[torch.from_numpy(members)] = number
        return numbers

    def _identities(self, samples: Samples) -> list[bytes]:
        """A keyed hash of each image's content: without the key nobody can tell who shares a group with whom."""
        return [self._digest(b"identity" + image.tobytes()) for image in samples.images.detach().cpu().numpy()]

    def _exchanged(self, images: Array, members: list[Array]) -> Array:
        """Every region of every channel, blended, at the same place of a random member of the group."""
        region = region_size(*images.shape[2:])
        moving, staying = self._random(b"exchange"), self._random(b"blend", always=True)
        mixed = images.copy()
        for size in sorted({len(one) for one in members}):
            equal = np.stack([one for one in members if len(one) == size])  # groups of one size at once
            for channel, top, left in itertools.product(
                range(images.shape[1]), range(0, images.shape[2], region), range(0, images.shape[3], region)
            ):
                place = (channel, slice(top, top + region), slice(left, left + region))
                cells = self._blended(images[(equal, *place)], staying)
                mixed[(equal, *place)] = np.take_along_axis(cells, _orders(moving, equal.shape), axis=1)
        return mixed

    def _blended(self, cells: Array, random: np.random.Generator) -> Array:
        """Cells (groups, members, h, w), each the mean of ``blend`` or a few more members of its group."""
        if self.blend == 1:
            return cells
        orders = _orders(random, cells.shape[:2])
        drawn = np.take_along_axis(cells, orders, axis=1)
        parts = np.array_split(drawn, max(cells.shape[1] // self.blend, 1), axis=1)
        return np.concatenate([np.broadcast_to(part.mean(1, keepdims=True), part.shape) for part in parts], axis=1)

    def _mirrored(self, images: Array) -> Array:
        """Mirror the blocks of S/4 pixels, up and down, left and right; strips at the edge stay."""
        size = max(region_size(*images.shape[2:]) // 4, 1)
        if not self.mirror or size == 1:
            return images
        count, channels, height, width = images.shape
        down, across = height // size, width // size
        random = self._random(b"mirror")
        inner = images[:, :, : down * size, : across * size].reshape(count, channels, down, size, across, size)
        for axis in (3, 5):
            chosen = random.random((count, channels, down, 1, across, 1)) < 0.5
            inner = np.where(chosen, np.flip(inner, axis), inner)
        mirrored = images.copy()
        mirrored[:, :, : down * size, : across * size] = inner.reshape(count, channels, down * size, across * size)
        return mirrored

    def _negated(self, images: Array, ids: list[bytes]) -> Array:
        """Negatives of half of the channels, by key and content alone."""
        if not self.negative:
            return images
        bits = np.frombuffer(b"".join(self._digest(b"negative" + one)[: images.shape[1]] for one in ids), np.uint8) % 2
        chosen = bits.astype(bool).reshape(len(images), images.shape[1], 1, 1)
        return np.where(chosen, 1 - images, images)

    def _random(self, purpose: bytes, *, always: bool = False) -> np.random.Generator:
        """A generator for one purpose, in one epoch or always the same, under the key."""
        digest = self._digest(purpose + (b"" if always else int(self.epoch).to_bytes(8, "big")))
        return np.random.Generator(np.random.Philox(key=np.frombuffer(digest, "<u8")[:2]))

    def _digest(self, message: bytes) -> bytes:
        return hashlib.blake2b(message, key=self.key or b"", digest_size=16, person=PURPOSE).digest()


def _orders(random: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """A random order of the members of each group (groups, members), to be applied to cells."""
    return random.permuted(np.broadcast_to(np.arange(shape[1]), shape), axis=1)[:, :, None, None]


def _labels(samples: Samples) -> list[int]:
    """The class of each image, of soft targets the likeliest."""
    found: list[int] = (samples.targets if samples.targets.ndim == 1 else samples.targets.argmax(1)).tolist()
    return found


def groups(labels: list[int], ids: list[bytes], k: int) -> list[Array]:
    """Places of the images, in groups of at least ``k`` of a class in the order of their hashes.

    A class of fewer than ``k`` images is one group; what is left over joins the last group of its class.
    """
    found = []
    for label in sorted(set(labels)):
        members = sorted((place for place, one in enumerate(labels) if one == label), key=lambda place: ids[place])
        whole = max(len(members) // k, 1)
        starts = [number * k for number in range(whole)] + [len(members)]
        found += [np.array(members[a:b]) for a, b in itertools.pairwise(starts)]
    return found
