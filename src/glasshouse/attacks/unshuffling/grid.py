"""Where the blocks of a shuffled image lie: all that the shuffle leaves open is their order inside each group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from glasshouse.defenses.csvar import block_sizes, region_size

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Blocks of one shape in one region that may have traded places: their corners (n,), height and width."""

    tops: Array
    lefts: Array
    height: int
    width: int

    def cut(self, image: Array) -> Array:
        """The blocks of an image (C, H, W) as (C, n, height * width)."""
        rows = self.tops[:, None, None] + np.arange(self.height)[None, :, None]
        columns = self.lefts[:, None, None] + np.arange(self.width)[None, None, :]
        return image[:, rows, columns].reshape(len(image), len(self.tops), -1)

    def paste(self, image: Array, channel: int, blocks: Array) -> None:
        """Write blocks (n, height * width) to their places in one channel of an image."""
        for top, left, block in zip(self.tops, self.lefts, blocks, strict=True):
            place = image[channel, top : top + self.height, left : left + self.width]
            place[...] = block.reshape(self.height, self.width)


def groups(image: Array, block_size: int | None = None) -> list[Group]:
    """The groups of an image (C, H, W), shuffled or not: a shuffle changes no region's variance.

    Each region gives its full blocks and, where it is no multiple of the block, the strips at its right and bottom.
    """
    height, width = image.shape[1:]
    region = region_size(height, width)
    if block_size is None:
        sizes = block_sizes(np.ascontiguousarray(image.transpose(1, 2, 0)))
    else:
        sizes = np.full((-(-height // region), -(-width // region)), block_size)
    found = []
    for (row, column), size in np.ndenumerate(sizes):
        top, left = row * region, column * region
        high, wide = min(region, height - top), min(region, width - left)
        down, across = high // size, wide // size
        found += [
            _group(top, left, down, across, size, size),
            _group(top, left + across * size, down, 1, size, wide - across * size, step_down=size),
            _group(top + down * size, left, 1, across, high - down * size, size, step_across=size),
        ]
    return [group for group in found if len(group.tops) > 1 and group.height and group.width]


def _group(
    top: int,
    left: int,
    down: int,
    across: int,
    height: int,
    width: int,
    step_down: int | None = None,
    step_across: int | None = None,
) -> Group:
    rows, columns = np.meshgrid(np.arange(down), np.arange(across), indexing="ij")
    tops = top + rows.ravel() * (step_down or height)
    return Group(tops, left + columns.ravel() * (step_across or width), int(height), int(width))
