"""Small grey face crops that ship inside scikit-image."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from glasshouse.data.base import Dataset, ImageSet, array_set, datasets


@datasets.register("faces")
@dataclass(frozen=True, kw_only=True)
class Faces(Dataset):
    """A hundred faces and a hundred other crops of 25 px from Labeled Faces in the Wild."""

    source: ClassVar[str] = "scikit-image, skimage.data.lfw_subset"
    terms: ClassVar[str] = "CC0 (scikit-image's subset of Labeled Faces in the Wild)"

    def open(self, root: Path | None, *, download: bool) -> ImageSet:
        """Return the crops; train and test are the same."""
        from skimage import data

        pixels = np.rint(data.lfw_subset() * 255).astype(np.uint8)
        return array_set(self.name, pixels, [0] * 100 + [1] * 100, ("face", "not a face"), self.terms, "lfw")
