"""Part C: put blocks back by what fits at their seams, all orders tried where there are 24, else by annealing."""

from __future__ import annotations

import itertools

import numpy as np
from numba import njit

from glasshouse.attacks.unshuffling.grid import Array, Group

PROPOSALS = 800  # swaps tried per block while annealing
HOTTEST, COLDEST = 0.3, 0.01  # as shares of the mean seam cost of the start
PRIOR_WEIGHT = 0.1  # of a block's distance to the thumbnail, against its seams
SWEEPS = 3
FEW = 4

compiled = njit(cache=True, nogil=True)


@compiled
def _seams(image, prior, top, left, height, width):  # type: ignore[no-untyped-def]
    """Cost of one block where it lies: differences across its four edges, and from the thumbnail's mean there."""
    channels, rows, columns = image.shape
    cost = 0.0
    bottom, right = top + height, left + width
    for c in range(channels):
        for x in range(left, right):
            if top > 0:
                cost += abs(image[c, top, x] - image[c, top - 1, x])
            if bottom < rows:
                cost += abs(image[c, bottom - 1, x] - image[c, bottom, x])
        for y in range(top, bottom):
            if left > 0:
                cost += abs(image[c, y, left] - image[c, y, left - 1])
            if right < columns:
                cost += abs(image[c, y, right - 1] - image[c, y, right])
        off = 0.0
        for y in range(top, bottom):
            for x in range(left, right):
                off += image[c, y, x] - prior[c, y, x]
        cost += PRIOR_WEIGHT * abs(off) / (height * width) * (height + width)
    return cost


@compiled
def _swap(image, top, left, other_top, other_left, height, width):  # type: ignore[no-untyped-def]
    """Let two blocks trade places in all channels."""
    for c in range(image.shape[0]):
        for y in range(height):
            for x in range(width):
                kept = image[c, top + y, left + x]
                image[c, top + y, left + x] = image[c, other_top + y, other_left + x]
                image[c, other_top + y, other_left + x] = kept


@compiled
def _anneal(image, prior, tops, lefts, begins, sizes, shapes, proposals, hottest, coldest, seed):  # type: ignore[no-untyped-def]
    """Try swaps inside groups; worse ones are kept ever more rarely (Kirkpatrick 1983)."""
    np.random.seed(seed)
    total = proposals * tops.size
    for t in range(total):
        heat = hottest * (coldest / hottest) ** (t / total)
        group = np.searchsorted(begins, np.random.randint(tops.size), side="right") - 1
        first = begins[group] + np.random.randint(sizes[group])
        second = begins[group] + np.random.randint(sizes[group])
        if first == second:
            continue
        height, width = shapes[group]
        a, b, c, d = tops[first], lefts[first], tops[second], lefts[second]
        before = _seams(image, prior, a, b, height, width) + _seams(image, prior, c, d, height, width)
        _swap(image, a, b, c, d, height, width)
        after = _seams(image, prior, a, b, height, width) + _seams(image, prior, c, d, height, width)
        if after > before and np.random.random() >= np.exp((before - after) / heat):
            _swap(image, a, b, c, d, height, width)


def solve(image: Array, prior: Array, groups: list[Group], *, seed: int) -> Array:
    """Reorder the blocks of an image (C, H, W), channels together, so that seams fit, those across regions included.

    ``prior`` is the smooth picture of the region means (part A), which says roughly how bright each place is.
    """
    found = np.ascontiguousarray(image, np.float32).copy()
    if not groups:
        return found
    prior = np.ascontiguousarray(prior, np.float32)
    tops, lefts = (np.concatenate([getattr(one, name) for one in groups]) for name in ("tops", "lefts"))
    sizes = np.array([len(one.tops) for one in groups])
    begins = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    shapes = np.array([(one.height, one.width) for one in groups])
    costs = [_cost(found, prior, group) / len(group.tops) for group in groups]
    heat = max(float(np.mean(costs)), 1e-9)
    _anneal(found, prior, tops, lefts, begins, sizes, shapes, PROPOSALS, HOTTEST * heat, COLDEST * heat, seed)
    for _ in range(SWEEPS):
        for group in groups:
            if len(group.tops) <= FEW:
                _best_order(found, prior, group)
    return found


def _best_order(image: Array, prior: Array, group: Group) -> None:
    """Try every order of a small group, given its surroundings."""
    blocks = group.cut(image)

    def placed(order: tuple[int, ...]) -> float:
        for channel, part in enumerate(blocks):
            group.paste(image, channel, part[list(order)])
        return _cost(image, prior, group)

    placed(min(itertools.permutations(range(len(group.tops))), key=placed))


def _cost(image: Array, prior: Array, group: Group) -> float:
    """Cost of all blocks of a group where they lie."""
    corners = zip(group.tops, group.lefts, strict=True)
    return float(sum(_seams(image, prior, top, left, group.height, group.width) for top, left in corners))
