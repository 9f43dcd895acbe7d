"""Part A: the mean of every region and channel, which no shuffle inside regions can hide."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def region_means(images: Tensor, region: int) -> Tensor:
    """Mean colour of every region: (N, C, rows, columns); edge regions over what there is of them."""
    return F.avg_pool2d(images, region, ceil_mode=True, count_include_pad=False)


def thumbnail(images: Tensor, region: int) -> Tensor:
    """The picture that the region means give: as large as the images, smooth between regions."""
    height, width = images.shape[-2:]
    means = region_means(images, region)
    full = [means.shape[-2] * region, means.shape[-1] * region]
    smooth = F.interpolate(means, size=full, mode="bicubic", align_corners=False)
    return smooth[..., :height, :width].clamp(0, 1)


def fingerprints(images: Tensor, region: int) -> Tensor:
    """What the shuffle leaves unchanged, as one row per image: mean and mean square of every region and channel."""
    moments = [region_means(images, region), region_means(images.square(), region)]
    return torch.cat([moment.flatten(1) for moment in moments], dim=1)


def nearest(queries: Tensor, gallery: Tensor, *, at_once: int = 256) -> Tensor:
    """For each row of ``queries`` the place of the nearest row of ``gallery``."""
    return torch.cat([torch.cdist(part, gallery).argmin(1) for part in queries.split(at_once)])
