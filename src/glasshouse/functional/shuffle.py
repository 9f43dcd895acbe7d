"""The geometry and arithmetic of keyed block shuffles (CSVAR, section IV), compiled by Numba.

A plane is one channel of one image. Regions of S x S pixels are cut into blocks; blocks of equal shape trade
places inside their region. Where the image is not a multiple of S, edge regions are smaller; where a region is
not a multiple of the block, the remainder strips are smaller blocks that trade places among their equals. So
every value of a region and channel appears exactly once afterwards.

The order of blocks comes from a stream of random numbers: Philox4x64-10 (Salmon et al. 2011) under a key that
is derived from the secret, the image and the epoch. Each 64-bit word gives two 32-bit numbers, low half first;
Lemire's rejection makes every order of a Fisher-Yates shuffle equally likely. The order of use is part of the
format: regions row by row, channels in turn, then full blocks, right strip, bottom strip.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

Array = np.ndarray[Any, np.dtype[Any]]

MULTIPLIERS = (np.uint64(0xD2E7470EE14C6C93), np.uint64(0xCA5A826395121157))
WEYL = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBB67AE8584CAA73B))
HALF = np.uint64(0xFFFFFFFF)
S32 = np.uint64(32)
ONE = np.uint64(1)
ROUNDS = 10
BUFFER = 64  # numbers made at a time; has no influence on which are used

STAY = np.zeros(1, np.int64)

compiled = njit(cache=True, nogil=True, error_model="numpy")


@intrinsic
def _high(context, a, b):  # type: ignore[no-untyped-def]
    """The upper half of a 64-bit product, which Python has no operator for."""

    def build(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        first, second = (builder.zext(one, ir.IntType(128)) for one in arguments)
        product = builder.mul(first, second)
        return builder.trunc(builder.lshr(product, ir.Constant(ir.IntType(128), 64)), ir.IntType(64))

    return types.uint64(types.uint64, types.uint64), build


@compiled
def _refill(words, counter, key0, key1):  # type: ignore[no-untyped-def]
    """Fill ``words`` with the numbers of the next counters, and return the last counter used."""
    for start in range(0, words.size, 8):
        counter += ONE
        c0, c1, c2, c3 = counter, np.uint64(0), np.uint64(0), np.uint64(0)
        k0, k1 = key0, key1
        for _ in range(ROUNDS):
            h0, l0 = _high(MULTIPLIERS[0], c0), MULTIPLIERS[0] * c0  # type: ignore[call-arg, var-annotated]
            h1, l1 = _high(MULTIPLIERS[1], c2), MULTIPLIERS[1] * c2
            c0, c1, c2, c3 = h1 ^ c1 ^ k0, l1, h0 ^ c3 ^ k1, l0
            k0 += WEYL[0]
            k1 += WEYL[1]
        for place, word in enumerate((c0, c1, c2, c3)):
            words[start + 2 * place] = np.uint32(word & HALF)
            words[start + 2 * place + 1] = np.uint32(word >> S32)
    return counter


@compiled
def _order(down, across, height, width, order, words, used, counter, key0, key1):  # type: ignore[no-untyped-def]
    """Write where each block of a group is to come from to ``order``, all orders equally likely (Fisher and Yates).

    ``height`` and ``width`` lead from block to block. Returns how many ``words`` are used up, and their counter.
    """
    for i in range(down):
        for j in range(across):
            order[i * across + j] = i * height + j * width
    place = down * across - 1
    while place > 0:
        if used == words.size:
            counter = _refill(words, counter, key0, key1)
            used = 0
        bound = np.uint64(place + 1)
        product = np.uint64(words[used]) * bound
        used += 1
        if (product & HALF) < bound and (product & HALF) < (HALF + ONE - bound) % bound:
            continue  # one of the few numbers that would favour some places (Lemire 2019)
        other = np.int64(product >> S32)
        order[place], order[other] = order[other], order[place]
        place -= 1
    return used, counter


@compiled
def _move(source, target, corner, height, width, across, down, row, step, order, inverse):  # type: ignore[no-untyped-def]
    """Put the blocks of a group, ``down`` by ``across`` of them, into their new places.

    ``corner`` is where the first block begins; ``row`` and ``step`` lead to the next row and the next value.
    """
    for i in range(down):
        for j in range(across):
            here = corner + i * height * row + j * width * step
            there = corner + order[i * across + j]
            if inverse:
                here, there = there, here
            for y in range(height):
                go, come = np.uintp(here + y * row), np.uintp(there + y * row)
                target[go] = source[come]
                for x in range(1, width):
                    target[go + np.uintp(x * step)] = source[come + np.uintp(x * step)]


@compiled
def shuffle_values(source, target, shape, strides, region, unit, blocks, keys, together, inverse):  # type: ignore[no-untyped-def]
    """Shuffle images that lie in flat arrays, with block sizes (N, rows, columns) and keys (N, 2).

    ``shape`` is (N, C, H, W) and ``strides`` lead along it, both counted in values; a value is ``unit`` neighbours
    of a row taken together, so ``unit`` divides W and every block size. ``together`` moves all channels alike;
    ``inverse`` undoes what the same keys did.
    """
    images, channels, height, width = shape
    row, step = strides[2], strides[3]
    order = np.empty((3, region * region), np.int64)
    words = np.empty(BUFFER, np.uint32)
    for n in range(images):
        key0, key1 = keys[n, 0], keys[n, 1]
        used, counter = words.size, np.uint64(0)
        for i in range(blocks.shape[1]):
            for j in range(blocks.shape[2]):
                block = blocks[n, i, j]
                wide = block // unit
                high, long = min(region, height - i * region), min(region // unit, width - j * (region // unit))
                down, across = high // block, long // wide
                strip_down, strip_across = high - down * block, long - across * wide
                for c in range(channels):
                    if c == 0 or not together:
                        used, counter = _order(
                            down, across, block * row, wide * step, order[0], words, used, counter, key0, key1
                        )
                        if strip_across:
                            used, counter = _order(down, 1, block * row, 0, order[1], words, used, counter, key0, key1)
                        if strip_down:
                            used, counter = _order(
                                1, across, 0, wide * step, order[2], words, used, counter, key0, key1
                            )
                    corner = n * strides[0] + c * strides[1] + i * region * row + j * (region // unit) * step
                    right, bottom = corner + across * wide * step, corner + down * block * row
                    _move(source, target, corner, block, wide, across, down, row, step, order[0], inverse)
                    if strip_across:
                        _move(source, target, right, block, strip_across, 1, down, row, step, order[1], inverse)
                    if strip_down:
                        _move(source, target, bottom, strip_down, wide, across, 1, row, step, order[2], inverse)
                    if strip_across and strip_down:
                        last = right + down * block * row
                        _move(source, target, last, strip_down, strip_across, 1, 1, row, step, STAY, inverse)


@compiled
def integer_variances(images, region, variances):  # type: ignore[no-untyped-def]
    """Region variances of 8-bit (N, C, H, W) from exact integer sums, so that no order of values changes them."""
    count, channels, height, width = images.shape
    for n in range(count):
        for row in range(variances.shape[1]):
            for column in range(variances.shape[2]):
                top, left = row * region, column * region
                bottom, right = min(top + region, height), min(left + region, width)
                pixels = (bottom - top) * (right - left)
                total = 0
                for c in range(channels):
                    values, squares = np.int64(0), np.int64(0)
                    for y in range(top, bottom):
                        line = images[n, c, y, left:right]
                        small, large = np.int32(0), np.int32(0)
                        for x in range(line.shape[0]):
                            value = np.int32(line[x])
                            small += value
                            large += value * value
                        values += small
                        squares += large
                    total += pixels * squares - values * values
                variances[n, row, column] = total / (channels * pixels * pixels)


@compiled
def float_variances(images, region, variances):  # type: ignore[no-untyped-def]
    """Region variances of float (N, C, H, W) from values in sorted order, so that no order of pixels changes them."""
    count, channels, height, width = images.shape
    for n in range(count):
        for row in range(variances.shape[1]):
            for column in range(variances.shape[2]):
                top, left = row * region, column * region
                bottom, right = min(top + region, height), min(left + region, width)
                total = 0.0
                for c in range(channels):
                    values = np.sort(images[n, c, top:bottom, left:right].copy().ravel())
                    mean = 0.0
                    for value in values:
                        mean += value
                    mean /= values.size
                    spread = 0.0
                    for value in values:
                        spread += (value - mean) * (value - mean)
                    total += spread / values.size
                variances[n, row, column] = total / channels


def region_size(height: int, width: int) -> int:
    """S = 2^ceil(log2 sqrt(max(H, W))) (Eq. 1): the smallest power of two whose square covers the longer side."""
    size = 1
    while size * size < max(height, width):
        size *= 2
    return size


def region_variances(images: Array, region: int) -> Array:
    """Variance of every region (Eq. 2) of (N, C, H, W), averaged over channels: (N, rows, columns)."""
    count, _, height, width = images.shape
    variances = np.empty((count, -(-height // region), -(-width // region)))
    if images.dtype == np.uint8:
        integer_variances(images, region, variances)
    else:
        float_variances(images.astype(np.float64), region, variances)
    return variances


def adaptive_blocks(variances: Array, region: int) -> Array:
    """Block size of every region (Eq. 3): S/4 where its variance lies above the image's median, else S/2."""
    median = np.median(variances.reshape(len(variances), -1), axis=1)[:, None, None]
    return np.where(variances > median, max(region // 4, 1), max(region // 2, 1))
