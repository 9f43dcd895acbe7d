"""Folders of images: the class is the sub-folder, or there is one class for a flat folder."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from glasshouse.data.base import ImageSet
from glasshouse.data.images import SUFFIXES, fit, read_image
from glasshouse.errors import DataError
from glasshouse.types import ImageSpec

log = logging.getLogger(__name__)


def open_folder(path: Path, *, size: int | None = None, channels: int | None = None) -> ImageSet:
    """Read a folder: files in sub-folders belong to the class of that name, loose files to one class."""
    files = sorted(file for file in path.rglob("*") if file.suffix.lower() in SUFFIXES and file.is_file())
    if not files:
        raise DataError(f"There are no images under {path}: it wants files ending in {', '.join(sorted(SUFFIXES))}.")
    places = [file.relative_to(path) for file in files]
    classes = [place.parts[0] if len(place.parts) > 1 else "" for place in places]
    names = sorted(set(classes))
    labels = [names.index(one) for one in classes]
    shown = [one or "image" for one in names]
    return open_files(path.resolve().name, path, files, labels, shown, size=size, channels=channels)


def open_files(
    name: str,
    root: Path,
    files: Sequence[Path],
    labels: Sequence[int],
    class_names: Sequence[str],
    *,
    terms: str = "unknown: ask whoever gave you the images",
    size: int | None = None,
    channels: int | None = None,
) -> ImageSet:
    """An ImageSet over files, each decoded once to check it and again when asked for; bad ones are named."""
    if not files:
        raise DataError(f"There are no images of '{name}' under {root}: copy the official files there again.")
    good: list[int] = []
    shapes: set[tuple[int, ...]] = set()
    skipped: list[str] = []
    for index, file in enumerate(files):
        try:
            shapes.add(read_image(file).shape)
            good.append(index)
        except DataError as error:
            skipped.append(f"{file.relative_to(root).as_posix()}: {error}")
    if not good:
        raise DataError(f"None of the {len(files)} files under {root} can be read. The first: {skipped[0]}")
    for line in skipped:
        log.warning("Skipped %s", line)
    depth = channels or max(shape[2] for shape in shapes)
    sizes = {shape[:2] for shape in shapes}
    if size is None and len(sizes) > 1:
        raise DataError(
            f"The images under {root} have {len(sizes)} different sizes: choose one for all, for example --size 64."
        )
    height, width = (size, size) if size else next(iter(sizes))

    def read(place: int) -> np.ndarray:
        return fit(read_image(files[good[place]]), size, depth)

    return ImageSet(
        name,
        read,
        [labels[index] for index in good],
        [files[index].relative_to(root).with_suffix("").as_posix() for index in good],
        tuple(class_names),
        ImageSpec(depth, height, width, len(class_names)),
        terms,
        tuple(skipped),
    )
