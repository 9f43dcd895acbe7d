"""NPZ files: x_train, y_train, x_test, y_test, class_names; 8-bit images (N, H, W) or (N, H, W, C)."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from glasshouse.data.base import ImageSet, Split, array_set
from glasshouse.errors import DataError


def open_npz(path: Path, split: Split, *, name: str | None = None, terms: str | None = None) -> ImageSet:
    """Read one split of an NPZ file; a file with plain ``images`` and ``labels`` has one split only."""
    read = _reader(path)
    pixels, labels = read(f"x_{split}", "images"), read(f"y_{split}", "labels")
    if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer):
        raise DataError(f"{path}: labels have shape {labels.shape} and dtype {labels.dtype}: give whole numbers (N,).")
    try:
        class_names = [str(one) for one in read("class_names")]
    except DataError:
        class_names = [str(number) for number in range(int(labels.max(initial=0)) + 1)]
    unknown = "unknown: ask whoever gave you the file"
    return array_set(
        name or path.stem,
        pixels,
        [int(label) for label in labels],
        class_names,
        terms or unknown,
        f"x_{split}",
    )


def _reader(path: Path) -> Callable[..., np.ndarray]:
    """A function that returns the first array found under some keys; pickled arrays are refused."""
    try:
        archive = np.load(path, allow_pickle=False)
    except (OSError, ValueError, zipfile.BadZipFile, EOFError) as error:
        raise DataError(f"{path} is not a readable .npz file ({error}): save it with numpy.savez.") from error
    if not isinstance(archive, np.lib.npyio.NpzFile):
        raise DataError(f"{path} is not an .npz archive: save it with numpy.savez.")

    def read(*keys: str) -> np.ndarray:
        for key in keys:
            if key in archive:
                try:
                    return np.asarray(archive[key])
                except (ValueError, zipfile.BadZipFile, OSError, EOFError) as error:
                    raise DataError(f"{path}: array '{key}' cannot be read ({error}).") from error
        raise DataError(f"{path} has no array '{keys[0]}': it has {', '.join(archive.files) or 'none'}.")

    return read
