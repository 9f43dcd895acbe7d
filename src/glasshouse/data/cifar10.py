"""CIFAR-10."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from glasshouse.data.base import ImageSet, array_set, datasets
from glasshouse.data.official import OfficialDataset
from glasshouse.errors import DataError
from glasshouse.pickles import read_arrays

FOLDER = "cifar-10-batches-py"
TERMS = "none stated by its authors (Krizhevsky 2009)"


@datasets.register("cifar10")
@dataclass(frozen=True, kw_only=True)
class CIFAR10(OfficialDataset):
    """60,000 colour images of 32 px in ten classes."""

    source: ClassVar[str] = "https://www.cs.toronto.edu/~kriz/cifar.html"
    terms: ClassVar[str] = TERMS

    def layout(self) -> str:
        """The official files."""
        return f"{FOLDER}/"

    def present(self, root: Path) -> bool:
        """Whether the Python version is unpacked under the root."""
        return (root / FOLDER / "test_batch").is_file()

    def read(self, root: Path) -> ImageSet:
        """Read the Python version."""
        names = ["test_batch"] if self.split == "test" else [f"data_batch_{number}" for number in range(1, 6)]
        class_names = read_names(root / FOLDER / "batches.meta", b"label_names")
        batches = [read_batch(root / FOLDER / name, b"labels", len(class_names)) for name in names]
        return array_set(
            self.name,
            np.concatenate([pixels for pixels, _ in batches]),
            [label for _, labels in batches for label in labels],
            class_names,
            self.terms,
            f"x_{self.split}",
        )

    def download(self, root: Path) -> None:
        """Fetch and check the official archive through torchvision."""
        from glasshouse.data.download import fetch

        fetch("CIFAR10", root)


def read_batch(path: Path, key: bytes, classes: int) -> tuple[np.ndarray, list[int]]:
    """The images (N, 32, 32, 3) and labels of one file."""
    batch = read_arrays(path)
    try:
        rows, labels = batch[b"data"], [int(label) for label in batch[key]]
        fits = rows.dtype == np.uint8 and rows.shape == (len(labels), 3072) and set(labels) <= set(range(classes))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(f"{path} is not a batch of CIFAR ({error!r}): copy it again.") from error
    if not fits:
        raise DataError(f"{path} is not a batch of CIFAR: it wants rows of 3,072 bytes and a label for each.")
    return planes(rows), labels


def read_names(path: Path, key: bytes) -> list[str]:
    """The class names in a file."""
    meta = read_arrays(path)
    try:
        return [name.decode() for name in meta[key]]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(f"{path} does not hold the class names of CIFAR ({error!r}): copy it again.") from error


def planes(rows: np.ndarray) -> np.ndarray:
    """CIFAR's rows of 3,072 bytes, colour plane by colour plane, as (N, 32, 32, 3)."""
    return np.ascontiguousarray(rows.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
