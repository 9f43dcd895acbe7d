"""CSVAR, hardened: regions also trade places among images of a class, blocks are mirrored, values are keyed."""

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
from glasshouse.defenses.csvar import CSVAR, Array, check_key, drawn_key, region_size
from glasshouse.registry import secret, setting
from glasshouse.training import Samples

PURPOSE = b"csvar-exchange-1"


@defenses.register("csvar_exchange")
@dataclass(frozen=True, kw_only=True)
class CSVARExchange(Defense):
    """Shuffles images so that no single one of them holds the picture.

    Images of a class form groups of ``k`` that stay the same for all epochs: if they changed, what recurs most
    often at a place would be the image's own. In each epoch every region of every channel goes to a random member
    of its group; then comes CSVAR's shuffle, blocks are mirrored at random, half of the images' channels are
    negatives, the same ones in every epoch, and a little noise blurs exact sums.
    """

    paper: ClassVar[str] = "our own extension of CSVAR (Enhancing Visual Privacy in Federated Learning)"

    k: int = setting(4, "images of a class among which regions trade places")
    mirror: bool = setting(True, "blocks of S/4 pixels are mirrored at random")
    negative: bool = setting(True, "half of the channels of each image are negatives, the same ones in every epoch")
    dither: float = setting(4.0, "half-width of the uniform noise on pixels, on the 0 to 255 scale")
    key: bytes | None = secret("the secret; drawn by the audit's generator when not set")
    epoch: int = setting(0, "which epoch's version is made")

    def __post_init__(self) -> None:
        checks.at_least("k", self.k, 1)
        checks.at_least("dither", self.dither, 0)
        checks.at_least("epoch", self.epoch, 0)
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
        images = samples.images.detach().cpu().numpy()
        labels = samples.targets if samples.targets.ndim == 1 else samples.targets.argmax(1)
        ids = [hashlib.sha256(image.tobytes()).digest() for image in images]
        mixed = own._exchanged(images, labels.tolist(), ids)
        shuffled = CSVAR(key=own.key, epoch=self.epoch).on_images(torch.from_numpy(mixed), rng=rng).numpy()
        changed = own._negated(own._mirrored(shuffled), ids)
        noise = own._random(b"dither").uniform(-self.dither / 255, self.dither / 255, changed.shape)
        protected = np.clip(changed + noise, 0, 1).astype(images.dtype)
        return dataclasses.replace(samples, images=torch.from_numpy(protected).to(samples.images.device))

    def _exchanged(self, images: Array, labels: list[int], ids: list[bytes]) -> Array:
        """Every region of every channel at the same place of a random member of the group."""
        region = region_size(*images.shape[2:])
        random = self._random(b"exchange")
        mixed = images.copy()
        for members in groups(labels, ids, self.k):
            for top in range(0, images.shape[2], region):
                for left in range(0, images.shape[3], region):
                    place = (slice(top, top + region), slice(left, left + region))
                    for channel in range(images.shape[1]):
                        mixed[(members, channel, *place)] = images[(random.permutation(members), channel, *place)]
        return mixed

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

    def _random(self, purpose: bytes) -> np.random.Generator:
        """A generator for one purpose in one epoch, under the key."""
        digest = self._digest(purpose + self.epoch.to_bytes(8, "big"))
        return np.random.Generator(np.random.Philox(key=np.frombuffer(digest, "<u8")[:2]))

    def _digest(self, message: bytes) -> bytes:
        return hashlib.blake2b(message, key=self.key or b"", digest_size=16, person=PURPOSE).digest()


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
