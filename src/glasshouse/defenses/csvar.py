"""CSVAR: shuffle the blocks of every region, finer where variance is high, per channel, anew for every epoch."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch
from torch import Tensor

from glasshouse import checks
from glasshouse.defenses.base import Defense, defenses
from glasshouse.errors import DataError, SettingError
from glasshouse.functional import shuffle as blocks
from glasshouse.registry import secret, setting

Array = np.ndarray[Any, np.dtype[Any]]
Images = TypeVar("Images", Array, Tensor)

FORMAT = b"csvar-1"  # changes whenever the same key, identity and epoch would give another shuffle
KEY_BYTES = (16, 64)
MOST_CHANNELS = 4
WIDEST = 8  # bytes moved at once

region_size = blocks.region_size


def region_variance(image: Array | Tensor) -> Array:
    """Variance of every region of an image (Eq. 2): (rows, columns), or (N, rows, columns) for a batch."""
    layout = _Layout.of(image)
    variances = blocks.region_variances(layout.values, layout.region)
    return variances if layout.batched else variances[0]


def block_sizes(image: Array | Tensor) -> Array:
    """Block size of every region of an image (Eq. 3): (rows, columns), or (N, rows, columns) for a batch."""
    layout = _Layout.of(image)
    sizes = layout.blocks(None)
    return sizes if layout.batched else sizes[0]


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


@defenses.register("csvar")
@dataclass(frozen=True, kw_only=True)
class CSVAR(Defense):
    """Shuffles images before training; in an audit under a key drawn for the occasion.

    As a transform, ``CSVAR(key=...)`` shuffles one image at a time, under an identity that is the hash of its
    content unless one is given; ``at(epoch)`` is the same transform for another epoch.
    """

    paper: ClassVar[str] = "CSVAR: Enhancing Visual Privacy in Federated Learning via Adaptive Shuffling"

    block_size: int | None = setting(None, "size of all blocks; adaptive (S/4 or S/2 by variance) when not set")
    channel_wise: bool = setting(True, "channels are shuffled independently; else they move together")
    key: bytes | None = secret("the secret; drawn by the audit's generator when not set")
    epoch: int = setting(0, "which epoch's version is made")

    def __post_init__(self) -> None:
        checks.at_least("epoch", self.epoch, 0)
        if self.block_size is not None:
            checks.at_least("block_size", self.block_size, 1)
        if self.key is not None:
            _check_key(self.key)

    @property
    def acts_on(self) -> str:
        """Where this defense acts, for tables."""
        return "images"

    def at(self, epoch: int) -> CSVAR:
        """The same shuffle for another epoch."""
        return dataclasses.replace(self, epoch=epoch)

    def __call__(self, image: Images, identity: str | None = None) -> Images:
        """Shuffle one image, or a batch under one identity each derived from content."""
        if self.key is None:
            raise SettingError("CSVAR has no key: give CSVAR(key=...) 16 to 64 secret bytes.")
        ids = _content_ids(image) if identity is None else identity
        return self._shuffled(image, self.key, ids)

    def on_images(self, images: Tensor, *, rng: torch.Generator) -> Tensor:
        """Shuffle the images that the client computes with."""
        drawn = torch.randint(0, 256, (32,), generator=rng, dtype=torch.uint8).numpy().tobytes()
        return self._shuffled(images, self.key or drawn, [f"image/{index:06d}" for index in range(len(images))])

    def _shuffled(self, images: Images, key: bytes, ids: str | Sequence[str]) -> Images:
        settings = {"block_size": self.block_size, "channel_wise": self.channel_wise}
        return shuffle(images, key=key, ids=ids, epoch=self.epoch, **settings)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class _Layout:
    """How a caller's images lie in memory, seen as (N, C, H, W)."""

    values: Array
    batched: bool

    @classmethod
    def of(cls, images: Array | Tensor) -> _Layout:
        """Check the images and find their layout without copying them."""
        if isinstance(images, Tensor):
            return cls._of_tensor(images)
        return cls._of_array(np.asarray(images))

    @classmethod
    def _of_tensor(cls, images: Tensor) -> _Layout:
        if images.ndim not in (3, 4):
            raise DataError(f"images have shape {tuple(images.shape)}: give a tensor (C, H, W) or (N, C, H, W).")
        plain = images.detach().cpu()
        values = (plain.float() if plain.dtype == torch.bfloat16 else plain).numpy()
        return cls._checked(values if images.ndim == 4 else values[None], images.ndim == 4)

    @classmethod
    def _of_array(cls, images: Array) -> _Layout:
        if images.ndim not in (2, 3, 4):
            raise DataError(f"images have shape {images.shape}: give an array (H, W), (H, W, C) or (N, H, W, C).")
        lifted = images[None, :, :, None] if images.ndim == 2 else images[None] if images.ndim == 3 else images
        return cls._checked(lifted.transpose(0, 3, 1, 2), images.ndim == 4)

    @classmethod
    def _checked(cls, values: Array, batched: bool) -> _Layout:
        if 0 in values.shape:
            raise DataError(f"images of shape {values.shape} (N, C, H, W) are empty: there is nothing to shuffle.")
        if values.shape[1] > MOST_CHANNELS:
            raise DataError(f"images have {values.shape[1]} channels: give at most {MOST_CHANNELS}.")
        if values.dtype != np.uint8 and not np.issubdtype(values.dtype, np.floating):
            raise DataError(f"images have dtype {values.dtype}: give 8-bit (uint8) or float images.")
        if values.dtype != np.uint8 and not np.isfinite(values).all():
            raise DataError("images hold NaN or infinite values: remove those images first.")
        return cls(values, batched)

    @property
    def region(self) -> int:
        """Region size S (Eq. 1)."""
        return region_size(*self.values.shape[2:])

    def blocks(self, fixed: int | None) -> Array:
        """Block sizes (N, rows, columns): the fixed one, or by variance."""
        if fixed is None:
            return blocks.adaptive_blocks(blocks.region_variances(self.values, self.region), self.region)
        if fixed > self.region:
            raise SettingError(f"block_size={fixed} is larger than the region of {self.region} px: use a smaller one.")
        count, _, height, width = self.values.shape
        return np.full((count, -(-height // self.region), -(-width // self.region)), fixed)


def _apply(
    images: Images,
    key: bytes,
    ids: str | Sequence[str],
    epoch: int,
    block_size: int | None,
    channel_wise: bool,
    *,
    inverse: bool,
) -> Images:
    _check_key(key)
    checks.at_least("epoch", epoch, 0)
    layout = _Layout.of(images)
    names = [ids] if isinstance(ids, str) else list(ids)
    if len(names) != len(layout.values):
        raise DataError(f"There are {len(layout.values)} images but {len(names)} ids: give one for each image.")
    keys = np.stack([_stream_key(key, name, epoch) for name in names])
    sizes = layout.blocks(block_size)
    source = images.detach().cpu().contiguous() if isinstance(images, Tensor) else np.ascontiguousarray(images)
    raw = source.view(torch.uint8).numpy() if isinstance(source, Tensor) else source.view(np.uint8)
    itemsize = layout.values.dtype.itemsize if not isinstance(source, Tensor) else source.element_size()
    moved = _moved(raw.reshape(-1), itemsize, layout, isinstance(images, Tensor), sizes, keys, channel_wise, inverse)
    if isinstance(images, Tensor):
        return torch.from_numpy(moved).view(images.dtype).view(images.shape).to(images.device)
    return moved.view(images.dtype).reshape(images.shape)


def _moved(
    raw: Array,
    itemsize: int,
    layout: _Layout,
    planar: bool,
    sizes: Array,
    keys: Array,
    channel_wise: bool,
    inverse: bool,
) -> Array:
    """The shuffled bytes of images that lie contiguous in memory, plane by plane or channels side by side."""
    count, channels, height, width = layout.values.shape
    planar = planar or channels == 1
    unit = 1
    while planar and width % (2 * unit) == 0 and not (sizes % (2 * unit)).any() and 2 * unit * itemsize <= WIDEST:
        unit *= 2
    wide = width // unit
    shape = (count, channels, height, wide)
    strides = (channels * height * wide, height * wide, wide, 1)
    if not planar:
        strides = (channels * height * wide, 1, channels * wide, channels)
    source = raw.view(f"u{unit * itemsize}")
    target = np.empty_like(source)
    blocks.shuffle_values(source, target, shape, strides, layout.region, unit, sizes, keys, not channel_wise, inverse)
    return target.view(np.uint8)


def _check_key(key: bytes) -> None:
    low, high = KEY_BYTES
    if not isinstance(key, bytes) or not low <= len(key) <= high:
        given = f"{len(key)} bytes" if isinstance(key, bytes) else type(key).__name__
        raise SettingError(
            f"The key is {given}: give {low} to {high} secret bytes, for example secrets.token_bytes(32)."
        )


def _stream_key(key: bytes, identity: str, epoch: int) -> Array:
    """The generator's 128-bit key for one image and epoch: a keyed BLAKE2b hash, so that none tells of another."""
    message = epoch.to_bytes(8, "big") + identity.encode()
    digest = hashlib.blake2b(message, key=key, digest_size=16, person=FORMAT).digest()
    return np.frombuffer(digest, "<u8").astype(np.uint64)


def _content_ids(images: Array | Tensor) -> list[str]:
    """An identity for each image that is the hash of its shape and content."""
    layout = _Layout.of(images)
    return [
        hashlib.sha256(repr(one.shape).encode() + np.ascontiguousarray(one).tobytes()).hexdigest()
        for one in layout.values
    ]
