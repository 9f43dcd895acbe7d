"""NPZ files: x_train, y_train, x_test, y_test, class_names; 8-bit images (N, H, W) or (N, H, W, C)."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

from glasshouse.data.base import ImageSet, Split, array_set
from glasshouse.errors import DataError

MAX_CLASSES = 100_000
UNREADABLE = (OSError, ValueError, EOFError, MemoryError, RuntimeError, zipfile.BadZipFile, zlib.error)


def open_npz(path: Path, split: Split, *, name: str | None = None, terms: str | None = None) -> ImageSet:
    """Read one split of an NPZ file; a file with plain ``images`` and ``labels`` has one split only."""
    read = _reader(path)
    pixels, labels = read(f"x_{split}", "images"), read(f"y_{split}", "labels")
    if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer):
        raise DataError(f"{path}: labels have shape {labels.shape} and dtype {labels.dtype}: give whole numbers (N,).")
    if len(labels) != len(pixels):
        raise DataError(f"{path}: {len(pixels)} images but {len(labels)} labels: give one label for each image.")
    written = read("class_names", default=np.arange(min(int(labels.max(initial=0)), MAX_CLASSES) + 1))
    if written.ndim != 1:
        raise DataError(f"{path}: class_names has shape {written.shape}: give one name for each class.")
    class_names = [str(one) for one in written]
    unknown = "unknown: ask whoever gave you the file"
    return array_set(
        name or path.stem,
        pixels,
        [int(label) for label in labels],
        class_names,
        terms or unknown,
        f"x_{split}",
        where=path,
    )


def _reader(path: Path) -> Callable[..., np.ndarray]:
    """A function that returns the first array found under some keys; pickled arrays are refused."""
    try:
        archive = np.load(path, allow_pickle=False)
    except UNREADABLE as error:
        raise DataError(f"{path} is not a readable .npz file ({error}): save it with numpy.savez.") from error
    if not isinstance(archive, np.lib.npyio.NpzFile):
        raise DataError(f"{path} is not an .npz archive: save it with numpy.savez.")

    def read(*keys: str, default: np.ndarray | None = None) -> np.ndarray:
        for key in keys:
            if key in archive:
                try:
                    return np.asarray(archive[key])
                except UNREADABLE as error:
                    raise DataError(f"{path}: array '{key}' cannot be read ({error}).") from error
        if default is not None:
            return default
        raise DataError(f"{path} has no array '{keys[0]}': it has {', '.join(archive.files) or 'none'}.")

    return read
