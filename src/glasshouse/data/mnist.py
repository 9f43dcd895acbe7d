"""MNIST."""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from glasshouse.data.base import ImageSet, array_set, datasets
from glasshouse.data.official import OfficialDataset
from glasshouse.errors import DataError

PREFIX = {"train": "train", "test": "t10k"}


@datasets.register("mnist")
@dataclass(frozen=True, kw_only=True)
class MNIST(OfficialDataset):
    """70,000 grey handwritten digits of 28 px."""

    source: ClassVar[str] = "http://yann.lecun.com/exdb/mnist"
    terms: ClassVar[str] = "public research use (LeCun, Cortes, Burges)"

    def layout(self) -> str:
        """The official files."""
        return "MNIST/raw/t10k-images-idx3-ubyte (or .gz) and its companions"

    def present(self, root: Path) -> bool:
        """Whether the IDX files are under the root."""
        return self._find(root, "images-idx3-ubyte") is not None

    def read(self, root: Path) -> ImageSet:
        """Read the IDX files."""
        images, companion = (self._file(root, kind) for kind in ("images-idx3-ubyte", "labels-idx1-ubyte"))
        pixels, labels = read_idx(images), read_idx(companion)
        if labels.ndim != 1:
            raise DataError(f"{companion} has shape {labels.shape}: it should hold one label for each image.")
        names = [str(digit) for digit in range(10)]
        numbers = [int(x) for x in labels]
        return array_set(self.name, pixels, numbers, names, self.terms, f"x_{self.split}", where=companion)

    def download(self, root: Path) -> None:
        """Fetch and check the official files through torchvision."""
        from glasshouse.data.download import fetch

        fetch("MNIST", root)

    def _find(self, root: Path, kind: str) -> Path | None:
        name = f"{PREFIX[self.split]}-{kind}"
        places = [
            folder / f"{name}{end}" for folder in (root / "MNIST/raw", root / "mnist", root) for end in ("", ".gz")
        ]
        return next((place for place in places if place.is_file()), None)

    def _file(self, root: Path, kind: str) -> Path:
        found = self._find(root, kind)
        if found is None:
            raise DataError(f"{PREFIX[self.split]}-{kind} is missing under {root}: copy all four MNIST files there.")
        return found


def read_idx(path: Path) -> np.ndarray:
    """Read an IDX file of unsigned bytes, plain or gzipped."""
    try:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} is damaged ({error}): copy it again.") from error
    ranks = data[3] if len(data) >= 4 and data[:3] == b"\0\0\x08" else 0
    start = 4 + 4 * ranks
    shape = struct.unpack_from(f">{ranks}I", data, 4) if len(data) >= start else ()
    if not 0 < ranks <= 4 or not shape or len(data) != start + math.prod(shape):
        raise DataError(f"{path} is not an IDX file of bytes, or it is truncated: copy it again.")
    return np.frombuffer(data, np.uint8, offset=start).reshape(shape)
