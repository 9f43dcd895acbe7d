"""CelebA with its identities."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from glasshouse import checks
from glasshouse.data.base import ImageSet, datasets
from glasshouse.data.folder import open_files
from glasshouse.data.official import OfficialDataset
from glasshouse.errors import DataError
from glasshouse.registry import setting

FOLDERS = ("celeba", "CelebA", "")
PARTS = {"train": "0", "test": "2"}


@datasets.register("celeba")
@dataclass(frozen=True, kw_only=True)
class CelebA(OfficialDataset):
    """200,000 faces; a class is a person."""

    source: ClassVar[str] = "https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html"
    terms: ClassVar[str] = "non-commercial research (Liu et al. 2015)"
    individuals: ClassVar[bool] = True

    people: int = setting(100, "how many people, those with the most images first")

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.at_least("people", self.people, 1)

    def layout(self) -> str:
        """The official files."""
        return "celeba/img_align_celeba/*.jpg, identity_CelebA.txt and list_eval_partition.txt"

    def present(self, root: Path) -> bool:
        """Whether the aligned images and the identities are under the root."""
        return self._folder(root) is not None

    def read(self, root: Path) -> ImageSet:
        """Read the faces of the chosen people; people of the test part are others than those of the train part."""
        folder = self._folder(root) or root
        part = read_pairs(folder / "list_eval_partition.txt")
        identity = read_pairs(folder / "identity_CelebA.txt")
        images: dict[str, list[str]] = {}
        for file in sorted(identity):
            if part.get(file) == PARTS[self.split]:
                images.setdefault(identity[file], []).append(file)
        people = sorted(images, key=lambda person: (-len(images[person]), int(person)))[: self.people]
        pairs = [(folder / "img_align_celeba" / file, n) for n, person in enumerate(people) for file in images[person]]
        return open_files(
            self.name,
            folder,
            [file for file, _ in pairs],
            [label for _, label in pairs],
            people,
            terms=self.terms,
            size=self.size,
            channels=self.channels or 3,
        )

    def _folder(self, root: Path) -> Path | None:
        wanted = ("img_align_celeba", "identity_CelebA.txt", "list_eval_partition.txt")
        return next((root / f for f in FOLDERS if all((root / f / name).exists() for name in wanted)), None)


def read_pairs(path: Path) -> dict[str, str]:
    """Read a text file of two columns: image file and value."""
    pairs = {}
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), start=1):
        if not re.fullmatch(r"[^/\s]+\.jpg\s+[0-9]+\s*", line.lstrip()):
            raise DataError(f"{path}, line {number}: '{line[:60]}' is not FILE.jpg NUMBER: copy the file again.")
        file, number_text = line.split()
        pairs[file] = number_text
    return pairs
