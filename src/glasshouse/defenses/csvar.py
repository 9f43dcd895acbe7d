"""CSVAR: shuffle the blocks of every region, finer where variance is high, per channel, anew for every epoch."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from glasshouse import checks
from glasshouse.defenses.base import Defense, defenses
from glasshouse.errors import DataError, SettingError
from glasshouse.functional import shuffle as blocks
from glasshouse.registry import secret, setting
from glasshouse.types import Stage

Array = np.ndarray[Any, np.dtype[Any]]
Images = TypeVar("Images", Array, Tensor)
Transformed = TypeVar("Transformed", Array, Tensor, Image.Image)

FORMAT = b"csvar-1"  # changes whenever the same key, identity and epoch would give another shuffle
KEY_BYTES = (16, 64)
MOST_CHANNELS = 4
LAST_EPOCH = 2**64 - 1
PICTURES = ("L", "RGB", "RGBA")  # modes of PIL images whose values are those of the picture

region_size = blocks.region_size


def region_variance(image: Array | Tensor) -> Array:
    """Variance of every region of an image (Eq. 2): (rows, columns), or (N, rows, columns) for a batch."""
    planes = _Planes.of(image)
    variances = blocks.region_variances(planes.values, planes.region)
    return variances if image.ndim == 4 else variances[0]


def block_sizes(image: Array | Tensor) -> Array:
    """Block size of every region of an image (Eq. 3): (rows, columns), or (N, rows, columns) for a batch."""
    sizes = _Planes.of(image).blocks(None)
    return sizes if image.ndim == 4 else sizes[0]


def shuffle(
    images: Images,
    *,
    key: bytes,
    ids: str | Sequence[str],
    epoch: int,
    block_size: int | None = None,
    channel_wise: bool = True,
) -> Images:
    """Shuffle images under a secret key; type, shape, dtype and every pixel value stay.

    numpy arrays are (H, W), (H, W, C) or (N, H, W, C) with at most four channels, torch tensors (C, H, W) or
    (N, C, H, W), 8-bit or float. ``ids`` names each image; ``epoch`` counts from 0. ``block_size`` fixes the
    size of all blocks; without ``channel_wise`` all channels move together (the paper's figure 3).
    """
    return _apply(images, key, ids, epoch, block_size, channel_wise, inverse=False)


def unshuffle(
    images: Images,
    *,
    key: bytes,
    ids: str | Sequence[str],
    epoch: int,
    block_size: int | None = None,
    channel_wise: bool = True,
) -> Images:
    """Undo ``shuffle`` exactly, given the same key, ids, epoch and settings.

    Block sizes are computed again from the shuffled image: a shuffle leaves the values of a region in it, and
    the variances are computed so that their order does not matter.
    """
    return _apply(images, key, ids, epoch, block_size, channel_wise, inverse=True)


def drawn_key(rng: torch.Generator) -> bytes:
    """A key from a generator: for audits, which must give the same result again, never for real secrets."""
    return torch.randint(0, 256, (32,), generator=rng, dtype=torch.uint8).numpy().tobytes()


@defenses.register("csvar")
@dataclass(frozen=True, kw_only=True)
class CSVAR(Defense):
    """Shuffles images before training; in an audit under a key drawn for the occasion.

    As a transform, ``CSVAR(key=...)`` shuffles one image at a time, under an identity that is the hash of its
    content unless one is given; ``in_epoch(epoch)`` is the same transform for another epoch.
    """

    paper: ClassVar[str] = "CSVAR: Enhancing Visual Privacy in Federated Learning via Adaptive Shuffling"
    stages: ClassVar[frozenset[Stage]] = frozenset({Stage.IMAGES})
    moves_blocks: ClassVar[bool] = True
    version: ClassVar[int] = 2

    block_size: int | None = setting(None, "size of all blocks; adaptive (S/4 or S/2 by variance) when not set")
    channel_wise: bool = setting(True, "channels are shuffled independently; else they move together")
    key: bytes | None = secret("the secret; drawn by the audit's generator when not set")
    epoch: int = setting(0, "which epoch's version is made")

    def __post_init__(self) -> None:
        check_epoch(self.epoch)
        if self.block_size is not None:
            checks.at_least("block_size", self.block_size, 1)
        if self.key is not None:
            check_key(self.key)

    @property
    def acts_on(self) -> str:
        """Where this defense acts, for tables."""
        return "images"

    def with_key(self, rng: torch.Generator) -> CSVAR:
        """The same shuffle under a key that stays."""
        return self if self.key is not None else dataclasses.replace(self, key=drawn_key(rng))

    def in_epoch(self, epoch: int) -> CSVAR:
        """The same shuffle for another epoch."""
        return dataclasses.replace(self, epoch=epoch)

    def __call__(self, image: Transformed, identity: str | None = None) -> Transformed:
        """Shuffle one image (array, tensor or PIL), or a batch under one identity each derived from content."""
        if self.key is None:
            raise SettingError("CSVAR has no key: give CSVAR(key=...) 16 to 64 secret bytes.")
        if not isinstance(image, Image.Image):
            return self._shuffled(image, self.key, identity)
        if image.mode not in PICTURES:
            raise DataError(f"The picture has mode {image.mode}: convert it first, for example to 'RGB'.")
        return Image.fromarray(self._shuffled(np.asarray(image), self.key, identity))

    def on_images(self, images: Tensor, *, rng: torch.Generator) -> Tensor:
        """Shuffle the images that the client computes with, each under the hash of its content.

        Places in the batch would not do: a set that is worked on in batches would repeat its shuffles.
        """
        return self._shuffled(images, self.key or drawn_key(rng), None)

    def _shuffled(self, images: Images, key: bytes, ids: str | Sequence[str] | None) -> Images:
        return _apply(images, key, ids, self.epoch, self.block_size, self.channel_wise, inverse=False)


@dataclass(frozen=True, slots=True)
class _Planes:
    """A caller's images as contiguous planes (N, C, H, W): the numbers, and what is stored for them."""

    values: Array
    stored: Array

    @classmethod
    def of(cls, images: Array | Tensor) -> _Planes:
        """Check the images, and copy them only if they do not lie as planes."""
        if isinstance(images, Tensor):
            return cls._of_tensor(images)
        return cls._of_array(np.asarray(images))

    @classmethod
    def _of_tensor(cls, images: Tensor) -> _Planes:
        if images.ndim not in (3, 4):
            raise DataError(f"images have shape {tuple(images.shape)}: give a tensor (C, H, W) or (N, C, H, W).")
        plain = (images if images.ndim == 4 else images[None]).detach().cpu().contiguous()
        if plain.dtype == torch.bfloat16:  # which numpy does not know
            return cls(_checked(plain.float().numpy()), plain.view(torch.int16).numpy())
        values = _checked(plain.numpy())
        return cls(values, values)

    @classmethod
    def _of_array(cls, images: Array) -> _Planes:
        if images.ndim not in (2, 3, 4):
            raise DataError(f"images have shape {images.shape}: give an array (H, W), (H, W, C) or (N, H, W, C).")
        lifted = images[None, :, :, None] if images.ndim == 2 else images[None] if images.ndim == 3 else images
        _checked(lifted.transpose(0, 3, 1, 2))
        values = blocks.planes_of(lifted)
        return cls(values, values)

    @property
    def region(self) -> int:
        """Region size S (Eq. 1)."""
        return region_size(*self.values.shape[2:])

    def blocks(self, fixed: int | None) -> Array:
        """Block sizes (N, rows, columns): the fixed one, or by variance."""
        region = self.region
        if fixed is None:
            return blocks.adaptive_blocks(blocks.region_variances(self.values, region), region)
        if fixed < 1 or fixed >= max(region, 2):
            raise SettingError(
                f"block_size={fixed} in regions of {region} px moves nothing or cannot be cut: use 1 to {region // 2}."
            )
        count, _, height, width = self.values.shape
        return np.full((count, -(-height // region), -(-width // region)), fixed)

    def content_ids(self) -> list[str]:
        """An identity for each image that is the hash of its shape and content."""
        return [hashlib.sha256(repr(one.shape).encode() + one.tobytes()).hexdigest() for one in self.values]


def _checked(values: Array) -> Array:
    """Refuse (N, C, H, W) that cannot be shuffled."""
    if 0 in values.shape:
        raise DataError(f"images of shape {values.shape} (N, C, H, W) are empty: there is nothing to shuffle.")
    if values.shape[1] > MOST_CHANNELS:
        raise DataError(f"images have {values.shape[1]} channels: give at most {MOST_CHANNELS}.")
    if values.dtype != np.uint8 and not np.issubdtype(values.dtype, np.floating):
        raise DataError(f"images have dtype {values.dtype}: give 8-bit (uint8) or float images.")
    if values.dtype != np.uint8 and not np.isfinite(values).all():
        raise DataError("images hold NaN or infinite values: remove those images first.")
    return values


def _apply(
    images: Images,
    key: bytes,
    ids: str | Sequence[str] | None,
    epoch: int,
    block_size: int | None,
    channel_wise: bool,
    *,
    inverse: bool,
) -> Images:
    """Shuffle or unshuffle, under identities derived from content when none are given."""
    check_key(key)
    check_epoch(epoch)
    planes = _Planes.of(images)
    source = planes.stored
    names = planes.content_ids() if ids is None else [ids] if isinstance(ids, str) else list(ids)
    if len(names) != len(source):
        raise DataError(f"There are {len(source)} images but {len(names)} ids: give one for each image.")
    keys, sizes = _stream_keys(key, names, epoch), planes.blocks(block_size)
    moved = np.empty(source.shape, source.dtype)
    before, after = (one.reshape(-1).view(np.uint8) for one in (source, moved))
    blocks.shuffle_planes(
        before, after, source.shape, source.itemsize, planes.region, sizes, keys, not channel_wise, inverse
    )
    if isinstance(images, Tensor):
        return torch.from_numpy(moved).view(images.dtype).view(images.shape).to(images.device)
    return blocks.pixels_of(moved).reshape(images.shape)


def check_epoch(epoch: object) -> None:
    """Refuse an epoch that is no whole number from 0 on: the shuffle is told by eight bytes of it."""
    checks.whole("epoch", epoch, 0, LAST_EPOCH)


def check_key(key: bytes) -> None:
    """Refuse a key that is not 16 to 64 bytes."""
    low, high = KEY_BYTES
    if not isinstance(key, bytes) or not low <= len(key) <= high:
        given = f"{len(key)} bytes" if isinstance(key, bytes) else type(key).__name__
        raise SettingError(
            f"The key is {given}: give {low} to {high} secret bytes, for example secrets.token_bytes(32)."
        )


def _stream_keys(key: bytes, names: list[str], epoch: int) -> Array:
    """The generator's 128-bit key for each image and epoch: keyed BLAKE2b hashes, so that none tells of another."""
    start = int(epoch).to_bytes(8, "big")
    digests = (
        hashlib.blake2b(
            start + name.encode("utf-8", "surrogateescape"), key=key, digest_size=16, person=FORMAT
        ).digest()
        for name in names
    )
    return np.frombuffer(b"".join(digests), "<u8").astype(np.uint64).reshape(-1, 2)
