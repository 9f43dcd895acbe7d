"""Crops of the embedded photographs, for who needs images that are nobody's secret."""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch import Tensor
from torch.nn import functional as F

from glasshouse.data.loading import load
from glasshouse.errors import DataError
from glasshouse.types import ImageSpec

PHOTO_SIZE = 256
CROPS = 400  # enough to practise on, where no public images are given
ALIKE = 0.06  # root mean squared difference up to which an image shows a photograph, however it was resized


def photo_crops(spec: ImageSpec, count: int, seed: int, *, without: Collection[str] = ()) -> Tensor:
    """Random square crops of the embedded photographs, but for some of them, in the shape asked for."""
    channels = 1 if spec.channels == 1 else 3
    photos = load("photos", size=PHOTO_SIZE).fitted(None, channels)
    places = [place for place, name in enumerate(photos.ids) if name not in without]
    if not places:
        raise DataError("Every embedded photograph is attacked, so none is left to practise on: attack fewer of them.")
    pictures, _ = photos.batch(places)
    rng = torch.Generator().manual_seed(seed)
    crops = []
    for number in range(count):
        side = int(torch.randint(PHOTO_SIZE // 4, PHOTO_SIZE * 3 // 4, (1,), generator=rng))
        top, left = (int(torch.randint(0, PHOTO_SIZE - side, (1,), generator=rng)) for _ in range(2))
        crop = pictures[number % len(pictures), None, :, top : top + side, left : left + side]
        crops.append(F.interpolate(crop, size=(spec.height, spec.width), mode="area"))
    return torch.cat(crops)


def photographs_in(images: Tensor) -> frozenset[str]:
    """The embedded photographs that some of the images (N, C, H, W) show as a whole, by their content."""
    photos = load("photos", size=PHOTO_SIZE).fitted(None, images.shape[1])
    pictures = F.interpolate(photos.batch(range(len(photos)))[0], size=images.shape[2:], mode="area")
    distances = torch.cdist(pictures.flatten(1), images.float().flatten(1)) / pictures[0].numel() ** 0.5
    shown = (distances <= ALIKE).any(1).tolist()
    return frozenset(name for name, attacked in zip(photos.ids, shown, strict=True) if attacked)
