"""CIFAR-10."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from glasshouse.data.base import ImageSet, array_set, datasets
from glasshouse.data.official import OfficialDataset
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
        batches = [read_arrays(root / FOLDER / name) for name in names]
        labels = [int(label) for batch in batches for label in batch[b"labels"]]
        meta = read_arrays(root / FOLDER / "batches.meta")
        return array_set(
            self.name,
            planes(np.concatenate([batch[b"data"] for batch in batches])),
            labels,
            [name.decode() for name in meta[b"label_names"]],
            self.terms,
            f"x_{self.split}",
        )

    def download(self, root: Path) -> None:
        """Fetch and check the official archive through torchvision."""
        from glasshouse.data.download import fetch

        fetch("CIFAR10", root)


def planes(rows: np.ndarray) -> np.ndarray:
    """CIFAR's rows of 3,072 bytes, colour plane by colour plane, as (N, 32, 32, 3)."""
    return np.ascontiguousarray(rows.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
