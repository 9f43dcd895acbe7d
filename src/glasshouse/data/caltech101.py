"""Caltech-101."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from glasshouse.data.base import ImageSet, datasets
from glasshouse.data.folder import open_files
from glasshouse.data.official import OfficialDataset

FOLDERS = ("caltech101/101_ObjectCategories", "101_ObjectCategories")
EVERY = 5


@datasets.register("caltech101")
@dataclass(frozen=True, kw_only=True)
class Caltech101(OfficialDataset):
    """About 9,000 pictures of objects in 101 classes; every fifth of a class is a test image."""

    source: ClassVar[str] = "https://data.caltech.edu/records/mzrjq-6wc02"
    terms: ClassVar[str] = "CC BY 4.0 (Li, Andreeto, Ranzato, Perona)"

    def layout(self) -> str:
        """The official files."""
        return "101_ObjectCategories/CLASS/image_0001.jpg"

    def present(self, root: Path) -> bool:
        """Whether the categories are unpacked under the root."""
        return any((root / folder).is_dir() for folder in FOLDERS)

    def read(self, root: Path) -> ImageSet:
        """Read the folders; the set has no official split, so every fifth image of a class is for tests."""
        folder = next(root / name for name in FOLDERS if (root / name).is_dir())
        classes = sorted(path.name for path in folder.iterdir() if path.is_dir() and path.name != "BACKGROUND_Google")
        chosen = [
            (file, label)
            for label, name in enumerate(classes)
            for number, file in enumerate(sorted((folder / name).glob("*.jpg")))
            if (number % EVERY == 0) == (self.split == "test")
        ]
        files, labels = [file for file, _ in chosen], [label for _, label in chosen]
        return open_files(
            self.name,
            folder,
            files,
            labels,
            classes,
            terms=self.terms,
            size=self.size,
            channels=self.channels,
        )

    def download(self, root: Path) -> None:
        """Fetch and check the official archive through torchvision."""
        from glasshouse.data.download import fetch

        fetch("Caltech101", root)
