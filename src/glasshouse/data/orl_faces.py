"""The ORL faces, also known as the AT&T database of faces."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from glasshouse.data.base import ImageSet, datasets
from glasshouse.data.folder import open_files
from glasshouse.data.official import OfficialDataset

FOLDERS = ("orl_faces", "att_faces")
TEST = (9, 10)


@datasets.register("orl_faces")
@dataclass(frozen=True, kw_only=True)
class OrlFaces(OfficialDataset):
    """400 grey portraits of 40 people at 92x112; images 9 and 10 of a person are for tests."""

    source: ClassVar[str] = "AT&T Laboratories Cambridge, The Database of Faces"
    terms: ClassVar[str] = "research, with credit to AT&T Laboratories Cambridge"
    individuals: ClassVar[bool] = True

    def layout(self) -> str:
        """The official files."""
        return "orl_faces/s1/1.pgm to s40/10.pgm"

    def present(self, root: Path) -> bool:
        """Whether the folders of the people are under the root."""
        return any((root / folder / "s1").is_dir() for folder in FOLDERS)

    def read(self, root: Path) -> ImageSet:
        """Read the portraits of one split."""
        folder = next(root / name for name in FOLDERS if (root / name / "s1").is_dir())
        people = sorted((p for p in folder.iterdir() if re.fullmatch(r"s\d+", p.name)), key=lambda p: int(p.name[1:]))
        pairs = [
            (person / f"{number}.pgm", label)
            for label, person in enumerate(people)
            for number in range(1, 11)
            if (number in TEST) == (self.split == "test") and (person / f"{number}.pgm").is_file()
        ]
        return open_files(
            self.name,
            folder,
            [file for file, _ in pairs],
            [label for _, label in pairs],
            [person.name for person in people],
            terms=self.terms,
            size=self.size,
            channels=self.channels,
        )
