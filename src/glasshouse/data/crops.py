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
