"""VisualMixer: shuffle the pieces of every region, finer where there is more to see, per channel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from glasshouse import checks
from glasshouse.defenses.base import Defense, defenses
from glasshouse.errors import SettingError
from glasshouse.registry import setting
from glasshouse.types import Stage

#: Into how many pieces a side of a region is cut, as the authors' code has it: one row for images of low, middle
#: and high visual feature entropy; in it, one number for regions of rising share of the image's largest entropy.
PIECES = ((2, 4, 8, 8), (4, 8, 8, 8), (8, 8, 8, 8))
SHARES = (0.1, 0.5, 0.9)
AREA = 64  # entropies are told for so many pixels, whatever the size of a region


@defenses.register("visual_mixer")
@dataclass(frozen=True, kw_only=True)
class VisualMixer(Defense):
    """Shuffles pieces of regions, every channel by itself; how fine follows the visual feature entropy (VFE)."""

    paper: ClassVar[str] = "You Can Use But Cannot Recognize: Preserving Visual Privacy in Deep Neural Networks"
    stages: ClassVar[frozenset[Stage]] = frozenset({Stage.IMAGES})

    region: int = setting(8, "side of a region in pixels (published: a fourteenth of the side, 8 at 112 px)")
    low: float = setting(0.5, "mean VFE below which an image has its quiet regions cut into 2 x 2 pieces only")
    high: float = setting(1.0, "mean VFE from which on an image has all its regions cut into 8 x 8 pieces")

    def __post_init__(self) -> None:
        checks.at_least("region", self.region, 2)
        checks.at_least("low", self.low, 0)
        if self.high < self.low:
            raise SettingError(f"high={self.high:g} lies below low={self.low:g}: exchange the two.")
        checks.at_least("high", self.high, 0)

    @property
    def acts_on(self) -> str:
        """Where this defense acts, for tables."""
        return "images"

    def region_side(self, height: int, width: int) -> int | None:
        """The regions of this defense, whatever the size of the image."""
        return self.region

    def on_images(self, images: Tensor, *, rng: torch.Generator) -> Tensor:
        """Return shuffled copies of the images; values change places only."""
        sizes = self.block_sizes(images)
        planes = images.flatten(0, 1).clone()
        places = _regions(images.shape[-2], images.shape[-1], self.region)
        for number, (rows, columns) in enumerate(places):
            wanted = sizes[..., number].flatten()
            for block in wanted.unique().tolist():
                chosen = wanted == block
                planes[chosen, rows, columns] = _traded(planes[chosen, rows, columns], block, rng)
        return planes.view(images.shape)

    def block_sizes(self, images: Tensor) -> Tensor:
        """Side in pixels of the pieces that trade places: (N, C, regions), regions row by row."""
        entropy = visual_feature_entropy(images, self.region)
        mean = entropy.mean((1, 2))
        row = (mean >= self.low).long() + (mean >= self.high).long()
        least, most = (end(entropy.flatten(1), 1)[:, None, None] for end in (torch.amin, torch.amax))
        share = (entropy - least) / (most - least).clamp_min(torch.finfo(entropy.dtype).tiny)
        column = torch.bucketize(share, torch.tensor(SHARES, dtype=share.dtype))
        pieces = torch.tensor(PIECES)[row[:, None, None], column]
        return (self.region // pieces).clamp_min(1)


def visual_feature_entropy(images: Tensor, region: int) -> Tensor:
    """The VFE of every region: (N, C, regions), regions row by row.

    Sum of squared differences between neighbours inside the region, scaled to regions of 8 x 8 pixels.
    """
    found = []
    for rows, columns in _regions(images.shape[-2], images.shape[-1], region):
        part = images[..., rows, columns].double()
        change = part.diff(dim=-1).square().sum((2, 3)) + part.diff(dim=-2).square().sum((2, 3))
        found.append(change * AREA / (part.shape[-2] * part.shape[-1]))
    return torch.stack(found, -1)


def _regions(height: int, width: int, region: int) -> Iterator[tuple[slice, slice]]:
    """The regions of an image, row by row; those at the edge are smaller where the sides are no multiple."""
    for top in range(0, height, region):
        for left in range(0, width, region):
            yield slice(top, min(top + region, height)), slice(left, min(left + region, width))


def _traded(values: Tensor, block: int, rng: torch.Generator) -> Tensor:
    """Parts of planes (P, h, w) whose blocks changed places; remainder strips trade among their equals."""
    height, width = values.shape[1:]
    full_height, full_width = height - height % block, width - width % block
    made = values.clone()
    for rows, tall in ((slice(0, full_height), block), (slice(full_height, height), height % block)):
        for columns, wide in ((slice(0, full_width), block), (slice(full_width, width), width % block)):
            if made[:, rows, columns].numel():
                made[:, rows, columns] = _permuted(values[:, rows, columns], tall, wide, rng)
    return made


def _permuted(values: Tensor, tall: int, wide: int, rng: torch.Generator) -> Tensor:
    """Planes (P, h, w) whose blocks of ``tall`` by ``wide`` lie in a random order, every plane by its own."""
    count, height, width = values.shape
    down, across = height // tall, width // wide
    cut = values.reshape(count, down, tall, across, wide).transpose(2, 3).reshape(count, down * across, tall * wide)
    order = torch.rand(count, down * across, generator=rng).argsort(1)
    moved = cut.gather(1, order[..., None].expand_as(cut))
    return moved.view(count, down, across, tall, wide).transpose(2, 3).reshape(count, height, width)
