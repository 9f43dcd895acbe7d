"""Imagenette."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from glasshouse.data.base import ImageSet, datasets
from glasshouse.data.folder import open_files
from glasshouse.data.official import OfficialDataset

FOLDERS = ("imagenette2-160", "imagenette2-320", "imagenette2")
CLASSES = {
    "n01440764": "tench",
    "n02102040": "English springer",
    "n02979186": "cassette player",
    "n03000684": "chain saw",
    "n03028079": "church",
    "n03394916": "French horn",
    "n03417042": "garbage truck",
    "n03425413": "gas pump",
    "n03445777": "golf ball",
    "n03888257": "parachute",
}


@datasets.register("imagenette")
@dataclass(frozen=True, kw_only=True)
class Imagenette(OfficialDataset):
    """13,000 pictures of ten easily told ImageNet classes."""

    source: ClassVar[str] = "https://github.com/fastai/imagenette"
    terms: ClassVar[str] = "ImageNet's terms: non-commercial research"

    def layout(self) -> str:
        """The official files."""
        return "imagenette2-160/{train,val}/nXXXXXXXX/*.JPEG"

    def present(self, root: Path) -> bool:
        """Whether one of the published sizes is unpacked under the root."""
        return any((root / folder / "val").is_dir() for folder in FOLDERS)

    def read(self, root: Path) -> ImageSet:
        """Read the folder of one split."""
        top = next(root / name for name in FOLDERS if (root / name / "val").is_dir())
        folder = top / ("val" if self.split == "test" else "train")
        pairs = [(file, label) for label, wnid in enumerate(CLASSES) for file in sorted((folder / wnid).glob("*.JPEG"))]
        return open_files(
            self.name,
            folder,
            [file for file, _ in pairs],
            [label for _, label in pairs],
            list(CLASSES.values()),
            terms=self.terms,
            size=self.size,
            channels=self.channels or 3,
        )

    def download(self, root: Path) -> None:
        """Fetch and check the official archive through torchvision."""
        from glasshouse.data.download import fetch

        fetch("Imagenette", root, size="160px")
