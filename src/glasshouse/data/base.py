"""What every data set keeps: images read one at a time as 8-bit arrays, labels, class names, terms of use."""

from __future__ import annotations

import dataclasses
import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from glasshouse import checks
from glasshouse.data.images import fit
from glasshouse.errors import DataError, SettingError
from glasshouse.functional.layout import planar
from glasshouse.registry import Registry, setting
from glasshouse.types import ImageSpec

Split = Literal["train", "test"]


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Images that are read only when asked for.

    ``read(i)`` returns 8-bit (H, W, C); ``ids[i]`` is the image's identity (its relative path without
    suffix, or ``x_test/000123``). ``skipped`` names files that could not be read and why.
    """

    name: str
    read: Callable[[int], np.ndarray]
    labels: Sequence[int]
    ids: Sequence[str]
    class_names: tuple[str, ...]
    spec: ImageSpec
    terms: str = "unknown: ask whoever gave you the images"
    skipped: tuple[str, ...] = field(default=())

    def __len__(self) -> int:
        return len(self.labels)

    def batch(self, indices: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Images (N, C, H, W) in [0, 1] and labels (N,) at some places."""
        pixels = np.stack([self.read(index) for index in indices])
        images = torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 255
        return planar(images), torch.tensor([self.labels[index] for index in indices])

    def fitted(self, size: int | None, channels: int | None) -> ImageSet:
        """The same images cropped and resized to ``size`` px, in grey (1) or colour (3)."""
        if size is None and channels is None:
            return self
        spec = ImageSpec(
            channels or self.spec.channels,
            size or self.spec.height,
            size or self.spec.width,
            self.spec.classes,
        )
        return ImageSet(
            self.name,
            lambda index: fit(self.read(index), size, channels),
            self.labels,
            self.ids,
            self.class_names,
            spec,
            self.terms,
            self.skipped,
        )

    def of_classes(self, count: int) -> ImageSet:
        """The images of the first so many classes."""
        checks.between("classes", count, 1, self.spec.classes)
        kept = [place for place, label in enumerate(self.labels) if label < count]
        return dataclasses.replace(
            self,
            read=lambda index: self.read(kept[index]),
            labels=[self.labels[place] for place in kept],
            ids=[self.ids[place] for place in kept],
            class_names=self.class_names[:count],
            spec=dataclasses.replace(self.spec, classes=count),
        )

    def spread(self, count: int, seed: int) -> list[int]:
        """``count`` places, one of each class in turn; the seed draws classes and their images.

        Where every image is a class of its own, the order is that of the set.
        """
        checks.at_least("images", count, 1)
        if count > len(self):
            raise SettingError(f"images={count} is more than the {len(self)} that {self.name} has: use fewer.")
        rng = np.random.default_rng(seed)
        order = rng.permutation(len(self))
        alone = len(set(self.labels)) == len(self)
        ranks = np.arange(self.spec.classes) if alone else rng.permutation(self.spec.classes)
        taken: Counter[int] = Counter()
        turns: list[tuple[int, int, int]] = []
        for place in order:
            label = self.labels[place]
            turns.append((taken[label], int(ranks[label]), int(place)))
            taken[label] += 1
        return [place for _, _, place in sorted(turns)[:count]]


@dataclass(frozen=True, kw_only=True)
class Dataset(ABC):
    """The settings of a data set; ``load`` finds it and returns its images."""

    name: ClassVar[str]
    source: ClassVar[str]
    terms: ClassVar[str]
    individuals: ClassVar[bool] = False  # classes are people or breeds, told by comparing rather than by naming

    size: int | None = setting(None, "crop to the centre square and resize to this many pixels")
    channels: int | None = setting(None, "turn to grey (1) or colour (3)")
    split: Split = setting("test", "train or test images")
    classes: int | None = setting(None, "keep the images of the first so many classes")

    def __post_init__(self) -> None:
        if self.size is not None:
            checks.between("size", self.size, 1, 4096)
        if self.channels is not None:
            checks.one_of("channels", str(self.channels), ("1", "3"))

    def load(self, root: Path | None = None, *, download: bool = False) -> ImageSet:
        """Find the data and return its images, resized as the settings ask."""
        found = self.open(root, download=download)
        kept = found if self.classes is None else found.of_classes(self.classes)
        return kept.fitted(self.size, self.channels)

    @abstractmethod
    def open(self, root: Path | None, *, download: bool) -> ImageSet:
        """Find the data and return its images as they are."""


datasets: Registry[Dataset] = Registry("dataset", "glasshouse.data")


def data_root(chosen: Path | None = None) -> Path | None:
    """Where data sets are looked for: what was chosen, else GLASSHOUSE_DATA, else nowhere."""
    written = os.environ.get("GLASSHOUSE_DATA")
    return chosen or (Path(written) if written else None)


def array_set(
    name: str,
    pixels: np.ndarray,
    labels: Sequence[int],
    class_names: Sequence[str],
    terms: str,
    prefix: str,
    *,
    where: Path | None = None,
) -> ImageSet:
    """An ImageSet over an array of 8-bit images (N, H, W) or (N, H, W, C)."""
    source = where or name
    if pixels.dtype != np.uint8:
        raise DataError(f"{source}: images have dtype {pixels.dtype}: give 8-bit images (uint8).")
    if pixels.ndim == 3:
        pixels = pixels[..., None]
    if pixels.ndim != 4 or 0 in pixels.shape or pixels.shape[3] not in (1, 3):
        raise DataError(f"{source}: images have shape {pixels.shape}: give (N, H, W) or (N, H, W, 1 or 3), not empty.")
    if len(labels) != len(pixels):
        raise DataError(f"{source}: {len(pixels)} images but {len(labels)} labels: give one label for each image.")
    classes = len(class_names)
    if min(labels) < 0 or max(labels) >= classes:
        raise DataError(f"{source}: labels range from {min(labels)} to {max(labels)}, but there are {classes} classes.")
    count, height, width, channels = pixels.shape
    return ImageSet(
        name,
        lambda index: pixels[index],
        labels,
        [f"{prefix}/{index:06d}" for index in range(count)],
        tuple(class_names),
        ImageSpec(channels, height, width, classes),
        terms,
    )
