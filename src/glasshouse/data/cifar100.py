"""CIFAR-100."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from glasshouse.data.base import ImageSet, array_set, datasets
from glasshouse.data.cifar10 import TERMS, read_batch, read_names
from glasshouse.data.official import OfficialDataset

FOLDER = "cifar-100-python"


@datasets.register("cifar100")
@dataclass(frozen=True, kw_only=True)
class CIFAR100(OfficialDataset):
    """60,000 colour images of 32 px in a hundred classes."""

    source: ClassVar[str] = "https://www.cs.toronto.edu/~kriz/cifar.html"
    terms: ClassVar[str] = TERMS

    def layout(self) -> str:
        """The official files."""
        return f"{FOLDER}/"

    def present(self, root: Path) -> bool:
        """Whether the Python version is unpacked under the root."""
        return (root / FOLDER / "test").is_file()

    def read(self, root: Path) -> ImageSet:
        """Read the Python version with its fine labels."""
        class_names = read_names(root / FOLDER / "meta", b"fine_label_names")
        pixels, labels = read_batch(root / FOLDER / self.split, b"fine_labels", len(class_names))
        return array_set(self.name, pixels, labels, class_names, self.terms, f"x_{self.split}")

    def download(self, root: Path) -> None:
        """Fetch and check the official archive through torchvision."""
        from glasshouse.data.download import fetch

        fetch("CIFAR100", root)
