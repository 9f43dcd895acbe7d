"""Lossless 8-bit pictures: what a study stores is what it scores."""

from __future__ import annotations

import hashlib

import numpy as np
from torch import Tensor

from glasshouse.data.images import decode_image
from glasshouse.data.pixels import to_pixels, to_png, to_tensor
from glasshouse.errors import PictureError
from glasshouse.store import FOLDER, Album, Pictures

__all__ = [
    "fingerprint",
    "load_picture",
    "opaque_name",
    "picture_file",
    "read_picture",
    "save_picture",
    "to_pixels",
    "to_png",
    "to_tensor",
]


def picture_file(name: str) -> str:
    """What a picture of that name is called in a study."""
    return f"{FOLDER}/{name}.png"


def save_picture(album: Album, name: str, pixels: np.ndarray) -> tuple[str, str]:
    """Write a picture as ``images/NAME.png``; return what it is called and the SHA-256 of its pixels."""
    file = picture_file(name)
    album.write(file, to_png(pixels))
    return file, fingerprint(pixels)


def load_picture(pictures: Pictures, file: str, sha256: str) -> Tensor:
    """Read a stored picture back as (C, H, W) in [0, 1]; refuse one that changed since it was written."""
    pixels = decode_image(pictures.read(file), file)
    if fingerprint(pixels) != sha256:
        raise PictureError(f"{file} was changed since it was written: delete it and run the same command again.")
    return to_tensor(pixels)


def read_picture(pictures: Pictures, file: str) -> Tensor:
    """Read a picture that a database names as (C, H, W) in [0, 1]; no name leads out of where pictures lie."""
    return to_tensor(decode_image(pictures.read(file), file))


def fingerprint(pixels: np.ndarray) -> str:
    """SHA-256 of shape and pixel values."""
    return hashlib.sha256(repr(pixels.shape).encode() + np.ascontiguousarray(pixels).tobytes()).hexdigest()


def opaque_name(*parts: str) -> str:
    """A file name that reveals neither class nor model."""
    return hashlib.sha256("/".join(parts).encode()).hexdigest()[:24]
