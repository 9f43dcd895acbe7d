"""Handwritten digits that ship inside scikit-learn."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
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
        pixels, labels = _digits()
        part = slice(TEST_FROM, None) if self.split == "test" else slice(TEST_FROM)
        names = [str(digit) for digit in range(10)]
        return array_set(self.name, pixels[part].copy(), list(labels[part]), names, self.terms, f"x_{self.split}")


@cache
def _digits() -> tuple[np.ndarray, tuple[int, ...]]:
    """All digits and their classes, kept: they lie in a text that takes a while to read."""
    from sklearn.datasets import load_digits

    found = load_digits()
    return np.rint(found.images * (255 / 16)).astype(np.uint8), tuple(map(int, found.target))
