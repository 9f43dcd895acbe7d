"""Handwritten digits that ship inside scikit-learn."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from glasshouse.data.base import Dataset, ImageSet, array_set, datasets

TEST_FROM = 1500


@datasets.register("digits")
@dataclass(frozen=True, kw_only=True)
class Digits(Dataset):
    """1,797 grey digits of 8 px; the last 297 are the test images."""

    source: ClassVar[str] = "scikit-learn, sklearn.datasets.load_digits"
    terms: ClassVar[str] = "CC BY 4.0 (UCI optical recognition of handwritten digits)"

    def open(self, root: Path | None, *, download: bool) -> ImageSet:
        """Return one split of the digits."""
        from sklearn.datasets import load_digits

        found = load_digits()
        part = slice(TEST_FROM, None) if self.split == "test" else slice(TEST_FROM)
        pixels = np.rint(found.images[part] * (255 / 16)).astype(np.uint8)
        labels = [int(label) for label in found.target[part]]
        return array_set(self.name, pixels, labels, [str(digit) for digit in range(10)], self.terms, f"x_{self.split}")
