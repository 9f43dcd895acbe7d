"""The picture of what CSVAR does: figures 2 and 3 of the paper for any image."""

from __future__ import annotations

import io
import secrets
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from glasshouse import checks, data
from glasshouse.data.images import fit, read_image
from glasshouse.defenses import Chain, create, csvar
from glasshouse.defenses.csvar import CSVAR
from glasshouse.errors import DataError
from glasshouse.files import write_atomic
from glasshouse.reports.thumbnails import pixels_of, png_address
from glasshouse.store import Album

FIXED = (1, 2, 4, 8)
PREVIEWED = 3  # images of a study whose shuffle its page shows
ADAPTIVE = CSVAR()  # as published
PAGE_KEY = bytes(32)  # of pictures in a page, so that the same study gives the same page


def write_preview(image: Path, out: Path, *, size: int | None = None) -> None:
    """Draw original, variance map, block map and shuffled image, and below the grid of granularities."""
    if size is not None:
        checks.at_least("size", size, 2)
    pixels = fit(_read(image), size, None)
    write_atomic(out, draw(pixels, secrets.token_bytes(32)))


def _read(image: Path) -> np.ndarray[Any, np.dtype[Any]]:
    photos = data.load("photos", size=224)
    if str(image) in photos.class_names:
        return photos.read(photos.class_names.index(str(image)))
    if image.is_dir():
        raise DataError(f"{image} is a folder: give one image file, for instance of this folder.")
    if not image.exists():
        known = ", ".join(photos.class_names)
        raise DataError(f"There is no file {image}: give an image file, or an embedded photograph by name ({known}).")
    return read_image(image)


def draw(pixels: np.ndarray[Any, np.dtype[Any]], key: bytes) -> bytes:
    """The picture as PNG."""
    from matplotlib.figure import Figure

    region = csvar.region_size(*pixels.shape[:2])
    fixed = [size for size in FIXED if size < region]
    columns = max(4, len(fixed) + 1)
    figure = Figure(figsize=(2.6 * columns, 8.4), layout="constrained")
    axes = figure.subplots(3, columns)
    for place in axes.flat:
        place.axis("off")
    _four(axes[0][:4], pixels, key)
    for line, (channel_wise, name) in zip(axes[1:], ((False, "spatial only"), (True, "channel-wise")), strict=True):
        for place, size in zip(line, [*fixed, None], strict=False):
            shuffled = csvar.shuffle(
                pixels, key=key, ids="preview", epoch=0, block_size=size, channel_wise=channel_wise
            )
            _show(place, shuffled, f"{name}, {'adaptive' if size is None else f'block {size}'}")
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=100, facecolor="white")
    return buffer.getvalue()


def shuffles(defenses: Iterable[str], files: Iterable[str], album: Album) -> str:
    """Heat maps of a study's images as its CSVAR sees them, as a data address; empty where nothing is shuffled so."""
    found = [create(text) for text in defenses]
    links = [link for one in found for link in (one.links if isinstance(one, Chain) else (one,))]
    shuffle = next((link for link in links if isinstance(link, CSVAR)), None)
    chosen = sorted(files)[:PREVIEWED]
    if shuffle is None or not chosen:
        return ""
    return png_address(heat_maps([pixels_of(album, file) for file in chosen], shuffle))


def heat_maps(images: Sequence[np.ndarray[Any, np.dtype[Any]]], shuffle: CSVAR) -> bytes:
    """A line for each image (H, W, C): itself, the variance of its regions, its blocks, and a shuffle, as PNG."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 2.9 * len(images)), layout="constrained")
    for line, pixels in zip(figure.subplots(len(images), 4, squeeze=False), images, strict=True):
        _four(line, pixels, PAGE_KEY, shuffle)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=100, facecolor="white", metadata={"Software": None})
    return buffer.getvalue()


def _four(axes: Sequence[Any], pixels: np.ndarray[Any, np.dtype[Any]], key: bytes, shuffle: CSVAR = ADAPTIVE) -> None:
    """Original, variance map, block map and shuffled image."""
    for place in axes:
        place.axis("off")
    region, size = csvar.region_size(*pixels.shape[:2]), shuffle.block_size
    _show(axes[0], pixels, "original")
    axes[1].imshow(csvar.region_variance(pixels), cmap="viridis")
    axes[1].set_title(f"variance of {region} px regions")
    blocks = csvar.block_sizes(pixels)
    axes[2].imshow(blocks if size is None else np.full_like(blocks, size), cmap="cividis_r")
    adaptive = f"blocks of {max(region // 4, 1)} (light) or {max(region // 2, 1)} px"
    axes[2].set_title(adaptive if size is None else f"blocks of {size} px everywhere")
    shuffled = csvar.shuffle(
        pixels, key=key, ids="preview", epoch=0, block_size=size, channel_wise=shuffle.channel_wise
    )
    _show(axes[3], shuffled, "shuffled (CSVAR)")


def _show(axes: Any, pixels: np.ndarray[Any, np.dtype[Any]], title: str) -> None:
    axes.imshow(
        pixels[:, :, 0] if pixels.shape[2] == 1 else pixels, cmap="gray", vmin=0, vmax=255, interpolation="nearest"
    )
    axes.set_title(title)
