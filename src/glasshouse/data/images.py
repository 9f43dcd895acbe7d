"""Reading image files that others made: every file is hostile until it has been decoded within limits."""

from __future__ import annotations

import io
import warnings
from pathlib import Path, PurePath
from typing import BinaryIO

import numpy as np
from PIL import Image, UnidentifiedImageError

from glasshouse.errors import DataError

MAX_PIXELS = 64_000_000
FORMATS = {
    "PNG": (".png",),
    "JPEG": (".jpg", ".jpeg", ".jpe", ".jfif"),
    "BMP": (".bmp",),
    "GIF": (".gif",),
    "WEBP": (".webp",),
    "TIFF": (".tif", ".tiff"),
    "PPM": (".ppm", ".pgm", ".pbm", ".pnm"),
}
SUFFIXES = frozenset(suffix for suffixes in FORMATS.values() for suffix in suffixes)
GREY, COLOR = ("L", "1", "LA"), ("RGB", "RGBA", "P")


def read_image(path: Path) -> np.ndarray:
    """Decode an image file to 8-bit (H, W, 1) or (H, W, 3); raise a DataError that says what is wrong."""
    try:
        return _decoded(path, path.name, path.stat().st_size)
    except OSError as error:
        raise _damaged(path.name, error) from None


def decode_image(content: bytes, name: str) -> np.ndarray:
    """Decode what an image file of that name holds, as :func:`read_image` does."""
    return _decoded(io.BytesIO(content), name, len(content))


def _decoded(source: Path | BinaryIO, name: str, size: int) -> np.ndarray:
    if size == 0:
        raise DataError(f"{name} is empty (0 bytes): remove it or copy it again.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(source, formats=tuple(FORMATS)) as image:
                _refuse(image, name)
                image.load()
                pixels = np.asarray(image.convert("L" if image.mode in GREY else "RGB"))
    except UnidentifiedImageError:
        raise DataError(f"{name} is not an image in {', '.join(FORMATS)}: remove it or convert it.") from None
    except Image.DecompressionBombError:
        raise DataError(_too_large(name)) from None
    except (OSError, SyntaxError, ValueError, EOFError, TypeError) as error:
        if isinstance(error, DataError):
            raise
        raise _damaged(name, error) from None
    return pixels[:, :, None] if pixels.ndim == 2 else pixels


def _damaged(name: str, error: Exception) -> DataError:
    return DataError(f"{name} is damaged or truncated ({error}): remove it or copy it again.")


def _refuse(image: Image.Image, name: str) -> None:
    """Raise where a file opens but is not a plain 8-bit picture; nothing has been decoded yet."""
    if image.width * image.height > MAX_PIXELS:
        raise DataError(_too_large(name))
    if PurePath(name).suffix.lower() not in FORMATS[image.format or "PNG"]:
        raise DataError(f"{name} is {image.format} inside: rename it to {FORMATS[image.format or 'PNG'][0]}.")
    if getattr(image, "n_frames", 1) > 1:
        raise DataError(f"{name} is animated ({image.n_frames} frames): save one frame of it.")  # type: ignore[attr-defined]
    if image.mode not in (*GREY, *COLOR):
        raise DataError(f"{name} has pixel mode {image.mode}: convert it to 8-bit grey or RGB first.")


def _too_large(name: str) -> str:
    return f"{name} has more than {MAX_PIXELS:,} pixels: make it smaller first (a decompression bomb?)."


def fit(pixels: np.ndarray, size: int | None, channels: int | None) -> np.ndarray:
    """Crop to the centre square and resize to ``size`` px; turn to grey or colour as asked."""
    if channels is not None and channels != pixels.shape[2]:
        image = Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)
        pixels = np.asarray(image.convert("L" if channels == 1 else "RGB")).reshape(*pixels.shape[:2], channels)
    if size is None or pixels.shape[:2] == (size, size):
        return pixels
    height, width = pixels.shape[:2]
    side = min(height, width)
    left, top = (width - side) // 2, (height - side) // 2
    image = Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)
    square = image.crop((left, top, left + side, top + side)).resize((size, size), Image.Resampling.BICUBIC)
    return np.asarray(square).reshape(size, size, pixels.shape[2])
