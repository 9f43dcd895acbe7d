"""Stanford Dogs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from glasshouse.data.base import ImageSet, datasets
from glasshouse.data.folder import open_files
from glasshouse.data.official import OfficialDataset
from glasshouse.errors import DataError

FOLDERS = ("stanford_dogs", "StanfordDogs", "")


@datasets.register("stanford_dogs")
@dataclass(frozen=True, kw_only=True)
class StanfordDogs(OfficialDataset):
    """20,580 pictures of dogs of 120 breeds."""

    source: ClassVar[str] = "http://vision.stanford.edu/aditya86/ImageNetDogs"
    terms: ClassVar[str] = "ImageNet's terms: non-commercial research (Khosla et al. 2011)"
    individuals: ClassVar[bool] = True

    def layout(self) -> str:
        """The official files."""
        return "Images/nXXXXXXXX-breed/*.jpg with train_list.mat and test_list.mat"

    def present(self, root: Path) -> bool:
        """Whether images and lists are unpacked under the root."""
        return self._folder(root) is not None

    def read(self, root: Path) -> ImageSet:
        """Read the images of one official list."""
        from scipy.io import loadmat
        from scipy.io.matlab import MatReadError

        folder = self._folder(root) or root
        try:
            listed = loadmat(folder / f"{self.split}_list.mat")
            names = [str(row[0][0]) for row in listed["file_list"]]
            labels = [int(row[0]) - 1 for row in listed["labels"]]
            breeds = {label: Path(name).parts[0].partition("-")[2] for name, label in zip(names, labels, strict=True)}
            if min(labels) < 0:
                raise ValueError("a label below 1")
        except (ValueError, LookupError, TypeError, OSError, NotImplementedError, MatReadError) as error:
            raise DataError(f"{self.split}_list.mat under {folder} cannot be read ({error}): copy it again.") from error
        if any(".." in Path(name).parts or Path(name).is_absolute() for name in names):
            raise DataError(f"{self.split}_list.mat names files outside Images/: it is not the official list.")
        return open_files(
            self.name,
            folder / "Images",
            [folder / "Images" / name for name in names],
            labels,
            [breeds.get(label, f"breed {label}") for label in range(max(labels) + 1)],
            terms=self.terms,
            size=self.size,
            channels=self.channels or 3,
        )

    def _folder(self, root: Path) -> Path | None:
        wanted = ("Images", "train_list.mat", "test_list.mat")
        return next((root / f for f in FOLDERS if all((root / f / name).exists() for name in wanted)), None)
