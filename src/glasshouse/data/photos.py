"""Photographs that ship inside scikit-image."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

import numpy as np

from glasshouse.data.base import Dataset, ImageSet, datasets
from glasshouse.data.images import fit
from glasshouse.types import ImageSpec

SIZE = 32
NAMES = (
    "astronaut",
    "cat",
    "coffee",
    "rocket",
    "motorcycle",
    "camera",
    "coins",
    "retina",
    "galaxies",
    "moon",
)


@datasets.register("photos")
@dataclass(frozen=True, kw_only=True)
class Photos(Dataset):
    """Ten photographs, each a class of its own, at 32 px in colour unless asked otherwise."""

    source: ClassVar[str] = "scikit-image, skimage.data"
    terms: ClassVar[str] = "public domain or CC0, as listed in scikit-image's data/README.txt"

    def open(self, root: Path | None, *, download: bool) -> ImageSet:
        """Return the photographs; train and test are the same."""
        size, channels = self.size or SIZE, self.channels or 3
        return ImageSet(
            self.name,
            lambda index: _fitted(NAMES[index], size, channels).copy(),
            range(len(NAMES)),
            NAMES,
            NAMES,
            ImageSpec(channels, size, size, len(NAMES)),
            self.terms,
        )


@lru_cache(maxsize=3 * len(NAMES))
def _fitted(name: str, size: int, channels: int) -> np.ndarray:
    """A photograph in the shape asked for; kept, since to decode it takes longer than most that is done with it."""
    return fit(_photograph(name), size, channels)


def _photograph(name: str) -> np.ndarray:
    from skimage import data

    sources: dict[str, Callable[[], np.ndarray]] = {
        "cat": data.chelsea,
        "motorcycle": lambda: data.stereo_motorcycle()[0],
        "galaxies": data.hubble_deep_field,
    }
    pixels = np.asarray(sources.get(name, getattr(data, name, None))())  # type: ignore[misc]
    return pixels[:, :, None] if pixels.ndim == 2 else pixels[:, :, :3]
