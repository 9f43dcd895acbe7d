"""Lossless 8-bit pictures: what a study stores is what it scores."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
from torch import Tensor

from glasshouse.data.images import read_image
from glasshouse.data.pixels import to_pixels, to_png, to_tensor
from glasshouse.errors import StudyError
from glasshouse.files import write_atomic

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
    """Where a picture of that name lies in a study's directory."""
    return f"images/{name}.png"


def save_picture(directory: Path, name: str, pixels: np.ndarray) -> tuple[str, str]:
    """Write a picture as ``images/NAME.png``; return its relative path and the SHA-256 of its pixels."""
    file = picture_file(name)
    write_atomic(directory / file, to_png(pixels))
    return file, fingerprint(pixels)


def load_picture(directory: Path, file: str, sha256: str) -> Tensor:
    """Read a stored picture back as (C, H, W) in [0, 1]; refuse one that changed since it was written."""
    path = directory / file
    if not path.is_file():
        raise StudyError(f"{path} is missing: run the same command again to make it anew.")
    pixels = read_image(path)
    if fingerprint(pixels) != sha256:
        raise StudyError(f"{path} was changed since it was written: delete it and run the same command again.")
    return to_tensor(pixels)


def read_picture(directory: Path, file: str) -> Tensor:
    """Read a picture that a database names as (C, H, W) in [0, 1]; no name leads out of the directory."""
    path = (directory / file).resolve()
    if not path.is_relative_to(directory.resolve()):
        raise StudyError(f"{file} leads out of {directory}: this database was not made by Glasshouse.")
    if not path.is_file():
        raise StudyError(f"{directory / file} is missing: run the study again, or import its votes again.")
    return to_tensor(read_image(path))


def fingerprint(pixels: np.ndarray) -> str:
    """SHA-256 of shape and pixel values."""
    return hashlib.sha256(repr(pixels.shape).encode() + np.ascontiguousarray(pixels).tobytes()).hexdigest()


def opaque_name(*parts: str) -> str:
    """A file name that reveals neither class nor model."""
    return hashlib.sha256("/".join(parts).encode()).hexdigest()[:24]
