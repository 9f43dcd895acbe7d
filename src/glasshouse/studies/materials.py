"""The images a study attacks, and the hundred others that each must be told from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from glasshouse import checks, data
from glasshouse.data import ImageSet
from glasshouse.errors import DataError
from glasshouse.types import ImageSpec

GALLERY = 100
PHOTO_SIZE = 256


@dataclass(frozen=True, slots=True, eq=False)
class Materials:
    """Images (N, C, H, W) with labels, identities and class names, and a gallery of other images."""

    images: Tensor
    labels: Tensor
    identities: tuple[str, ...]
    class_names: tuple[str, ...]
    spec: ImageSpec
    gallery: Tensor
    terms: str
    skipped: tuple[str, ...] = ()


def from_dataset(
    source: str, count: int, seed: int, *, size: int | None, root: Path | None, download: bool
) -> Materials:
    """Draw ``count`` images of a data set, as many classes as possible."""
    found = data.load(source, root=root, size=size, download=download)
    places = found.spread(count, seed)
    images, labels = found.batch(places)
    return Materials(
        images,
        labels,
        tuple(found.ids[place] for place in places),
        tuple(found.class_names[int(label)] for label in labels),
        found.spec,
        _others(found, places, seed),
        found.terms,
        found.skipped,
    )


def from_tensors(images: Tensor, labels: Tensor, seed: int) -> Materials:
    """Take images and labels as a caller hands them over."""
    checks.images("images", images)
    if images.shape[1] not in (1, 3):
        raise DataError(f"images have {images.shape[1]} channels: give grey (1) or colour (3) images.")
    classes = max(int(labels.max()) + 1, 1) if labels.numel() else 1
    spec = ImageSpec(images.shape[1], images.shape[2], images.shape[3], classes)
    checks.labels(labels, spec, len(images))
    return Materials(
        images.float(),
        labels.long(),
        tuple(f"images/{index:06d}" for index in range(len(images))),
        tuple(str(int(label)) for label in labels),
        spec,
        _photo_crops(spec, GALLERY, seed),
        "the caller's own",
    )


def _others(found: ImageSet, taken: list[int], seed: int) -> Tensor:
    """Other images of the same data set, made up with crops of photographs where it has too few."""
    drawn = found.spread(min(len(found), GALLERY + len(taken)), seed + 1)
    others = [place for place in drawn if place not in taken][:GALLERY]
    parts = [found.batch(others)[0]] if others else []
    if len(others) < GALLERY:
        parts.append(_photo_crops(found.spec, GALLERY - len(others), seed))
    return torch.cat(parts)


def _photo_crops(spec: ImageSpec, count: int, seed: int) -> Tensor:
    """Random square crops of the embedded photographs in the shape asked for."""
    channels = 1 if spec.channels == 1 else 3
    photos = data.load("photos", size=PHOTO_SIZE).fitted(None, channels)
    pictures, _ = photos.batch(range(len(photos)))
    rng = torch.Generator().manual_seed(seed)
    crops = []
    for number in range(count):
        side = int(torch.randint(PHOTO_SIZE // 4, PHOTO_SIZE * 3 // 4, (1,), generator=rng))
        top, left = (int(torch.randint(0, PHOTO_SIZE - side, (1,), generator=rng)) for _ in range(2))
        crop = pictures[number % len(pictures), None, :, top : top + side, left : left + side]
        crops.append(F.interpolate(crop, size=(spec.height, spec.width), mode="area"))
    return torch.cat(crops)
