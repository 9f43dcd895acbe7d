"""The files a protected set is written to: PNG pictures, tar shards of them, or one NPZ file per epoch."""

from __future__ import annotations

import io
import tarfile
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from glasshouse.data.images import MAX_PIXELS, read_image
from glasshouse.data.npz import UNREADABLE
from glasshouse.errors import DataError
from glasshouse.files import write_atomic

Array = np.ndarray[Any, np.dtype[Any]]
#: An identity with its pixels (H, W, C).
Named = tuple[str, Array]


class Format(ABC):
    """Writes the versions of one epoch that belong together, and reads them again."""

    images: int  # how many source images make one step of the work

    @abstractmethod
    def write(self, directory: Path, epoch: int, step: int, named: list[Named]) -> list[str]:
        """Write versions whole or not at all; return the file of each."""

    @abstractmethod
    def read(self, directory: Path, file: str, identities: list[str]) -> Iterator[Array]:
        """Read versions back from one file, in the order of the identities."""


@dataclass(frozen=True)
class Png(Format):
    """``epoch_000/IDENTITY.png``: one lossless picture for each version."""

    images: int = 64

    def write(self, directory: Path, epoch: int, step: int, named: list[Named]) -> list[str]:
        """Write one file per version."""
        files = [f"epoch_{epoch:03d}/{identity}.png" for identity, _ in named]
        for file, (_, pixels) in zip(files, named, strict=True):
            write_atomic(directory / file, encode(pixels))
        return files

    def read(self, directory: Path, file: str, identities: list[str]) -> Iterator[Array]:
        """Read the one version in a file."""
        yield read_image(directory / file)


@dataclass(frozen=True)
class Shards(Format):
    """``epoch_000/shard_000000.tar``: a thousand pictures in one file, for sequential reading."""

    images: int = 1000

    def write(self, directory: Path, epoch: int, step: int, named: list[Named]) -> list[str]:
        """Write one archive."""
        file = f"epoch_{epoch:03d}/shard_{step:06d}.tar"
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            for identity, pixels in named:
                content = encode(pixels)
                info = tarfile.TarInfo(f"{identity}.png")
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
        write_atomic(directory / file, buffer.getvalue())
        return [file] * len(named)

    def read(self, directory: Path, file: str, identities: list[str]) -> Iterator[Array]:
        """Read the pictures of an archive; names are compared, never used as paths."""
        try:
            with tarfile.open(directory / file) as archive:
                for identity, info in zip(identities, archive, strict=True):
                    stream = archive.extractfile(info)
                    if stream is None or info.name != f"{identity}.png":
                        raise DataError(f"{file} holds '{info.name}' where the manifest says '{identity}'.")
                    yield decode(stream.read())
        except (tarfile.TarError, ValueError, OSError) as error:
            if isinstance(error, DataError):
                raise
            raise DataError(f"{directory / file} cannot be read ({error}): protect the data set again.") from error


@dataclass(frozen=True)
class Npz(Format):
    """``epoch_000/part_000000.npz``: ``images`` and ``ids``, for images that all have one shape."""

    images: int = 4096

    def write(self, directory: Path, epoch: int, step: int, named: list[Named]) -> list[str]:
        """Write one archive of arrays."""
        if len({pixels.shape for _, pixels in named}) > 1:
            raise DataError(
                "The images have different shapes, which one array cannot hold: use --format png or shards."
            )
        file = f"epoch_{epoch:03d}/part_{step:06d}.npz"
        buffer = io.BytesIO()
        ids = np.array([identity for identity, _ in named])
        np.savez(buffer, images=np.stack([pixels for _, pixels in named]), ids=ids)
        write_atomic(directory / file, buffer.getvalue())
        return [file] * len(named)

    def read(self, directory: Path, file: str, identities: list[str]) -> Iterator[Array]:
        """Read the rows of an archive."""
        try:
            with np.load(directory / file, allow_pickle=False) as archive:
                if archive["ids"].tolist() != identities:
                    raise DataError(f"{file} holds other images than the manifest says: protect the data set again.")
                yield from archive["images"]
        except (*UNREADABLE, KeyError) as error:
            if isinstance(error, DataError):
                raise
            raise DataError(f"{directory / file} cannot be read ({error}): protect the data set again.") from error


FORMATS: dict[str, Format] = {"png": Png(), "npz": Npz(), "shards": Shards()}


def encode(pixels: Array) -> bytes:
    """Pixels (H, W, 1 or 3) as PNG."""
    buffer = io.BytesIO()
    Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels).save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()


def decode(content: bytes) -> Array:
    """PNG as pixels (H, W, 1 or 3)."""
    try:
        with Image.open(io.BytesIO(content), formats=("PNG",)) as image:
            if image.width * image.height > MAX_PIXELS:
                raise DataError(f"A picture of {image.width}x{image.height} pixels is too large to be real.")
            pixels = np.asarray(image)
    except (OSError, Image.DecompressionBombError) as error:
        raise DataError(
            f"A picture of the protected set cannot be read ({error}): protect the data set again."
        ) from None
    return pixels[:, :, None] if pixels.ndim == 2 else pixels


def grouped(named: Iterable[tuple[str, str]]) -> Iterator[tuple[str, list[str]]]:
    """Neighbours that share a file, as (file, identities)."""
    file, identities = "", list[str]()
    for one, identity in named:
        if one != file and identities:
            yield file, identities
            identities = []
        file = one
        identities.append(identity)
    if identities:
        yield file, identities
