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
from numba.core import cgutils
from numba.extending import intrinsic

Array = np.ndarray[Any, np.dtype[Any]]

MULTIPLIERS = (np.uint64(0xD2E7470EE14C6C93), np.uint64(0xCA5A826395121157))
WEYL = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBB67AE8584CAA73B))
HALF = np.uint64(0xFFFFFFFF)
S32 = np.uint64(32)
ONE = np.uint64(1)
ROUNDS = 10
BUFFER = 64  # numbers made at a time; has no influence on which are used

compiled = njit(cache=True, nogil=True, error_model="numpy")
compiled_inline = njit(cache=True, nogil=True, error_model="numpy", forceinline=True)  # a caller's constants stay such


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
            h0, l0 = _high(MULTIPLIERS[0], c0), MULTIPLIERS[0] * c0
            h1, l1 = _high(MULTIPLIERS[1], c2), MULTIPLIERS[1] * c2
            c0, c1, c2, c3 = h1 ^ c1 ^ k0, l1, h0 ^ c3 ^ k1, l0
            k0 += WEYL[0]
            k1 += WEYL[1]
        for place, word in enumerate((c0, c1, c2, c3)):
            words[start + 2 * place] = np.uint32(word & HALF)
            words[start + 2 * place + 1] = np.uint32(word >> S32)
    return counter


@compiled
def _order(grid, height, width, orders, group, words, used, counter, key0, key1):  # type: ignore[no-untyped-def]
    """Write where each block of a group is to come from, all orders equally likely (Fisher and Yates).

    ``height`` and ``width`` lead from block to block. Returns how many ``words`` are used up, and their counter.
    """
    down, across = grid
    for i in range(down):
        for j in range(across):
            orders[group, i * across + j] = i * height + j * width
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
        orders[group, place], orders[group, other] = orders[group, other], orders[group, place]
        place -= 1
    return used, counter


@intrinsic
def _copy(context, target, to, source, start, size):  # type: ignore[no-untyped-def]
    """Copy bytes between places of flat arrays; a ``size`` known when compiled makes it one load and one store."""

    def build(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        def address(array):  # type: ignore[no-untyped-def]
            data = context.make_array(signature.args[array])(context, builder, arguments[array]).data
            return builder.gep(data, [arguments[array + 1]])

        cgutils.raw_memcpy(builder, address(0), address(2), arguments[4], 1)  # type: ignore[no-untyped-call]
        return context.get_dummy_value()

    return types.void(target, types.intp, source, types.intp, types.intp), build


@compiled_inline
def _move_rows(source, target, corner, height, width, grid, row, orders, group, inverse):  # type: ignore[no-untyped-def]
    """Put the blocks of a group, a ``grid`` of them, into their new places.

    ``corner`` is where the first block begins and ``row`` leads to the next row, both, like ``width``, in bytes.
    """
    down, across = grid
    for i in range(down):
        for j in range(across):
            here = corner + i * height * row + j * width
            there = corner + orders[group, i * across + j]
            if inverse:
                here, there = there, here
            for y in range(height):
                _copy(target, here + y * row, source, there + y * row, width)


@compiled
def _move(source, target, corner, size, grid, row, orders, group, inverse):  # type: ignore[no-untyped-def]
    """Move a group of blocks, with code of its own for the usual widths: a copy of unknown size costs a call."""
    height, width = size
    if width == 2:
        _move_rows(source, target, corner, height, 2, grid, row, orders, group, inverse)
    elif width == 4:
        _move_rows(source, target, corner, height, 4, grid, row, orders, group, inverse)
    elif width == 8:
        _move_rows(source, target, corner, height, 8, grid, row, orders, group, inverse)
    elif width == 16:
        _move_rows(source, target, corner, height, 16, grid, row, orders, group, inverse)
    else:
        _move_rows(source, target, corner, height, width, grid, row, orders, group, inverse)


@compiled
def shuffle_planes(source, target, shape, itemsize, region, blocks, keys, together, inverse):  # type: ignore[no-untyped-def]
    """Shuffle planes (N, C, H, W) that lie as flat bytes, with block sizes (N, rows, columns) and keys (N, 2).

    ``together`` moves all channels alike; ``inverse`` undoes what the same keys did.
    """
    images, channels, height, width = shape
    row = width * itemsize
    orders = np.empty((4, region * region), np.int64)
    words = np.empty(BUFFER, np.uint32)
    for n in range(images):
        key0, key1 = keys[n, 0], keys[n, 1]
        used, counter = words.size, np.uint64(0)
        for i in range(blocks.shape[1]):
            for j in range(blocks.shape[2]):
                block = blocks[n, i, j]
                high, long = min(region, height - i * region), min(region, width - j * region)
                down, across = high // block, long // block
                tall, wide = block * row, block * itemsize
                strip_down, strip_across = high - down * block, (long - across * block) * itemsize
                for c in range(channels):
                    corner = ((n * channels + c) * height + i * region) * row + j * region * itemsize
                    for group in range(4):  # full blocks, right strip, bottom strip, and what lies under and right
                        right, bottom = group % 2, group // 2
                        grid = (1 if bottom else down, 1 if right else across)
                        size = (strip_down if bottom else block, strip_across if right else wide)
                        if not size[0] or not size[1]:
                            continue
                        if c == 0 or not together:
                            used, counter = _order(grid, tall, wide, orders, group, words, used, counter, key0, key1)
                        start = corner + bottom * down * tall + right * across * wide
                        _move(source, target, start, size, grid, row, orders, group, inverse)


@compiled
def _split_rgb(pixels, planes):  # type: ignore[no-untyped-def]
    """Copy (N, H x W x 3) to (N, 3, H x W); that 3 is a constant lets it use vectors."""
    for n in range(len(planes)):
        for place in range(planes.shape[2]):
            for c in range(3):
                planes[n, c, place] = pixels[n, 3 * place + c]


@compiled
def _join_rgb(planes, pixels):  # type: ignore[no-untyped-def]
    """Copy (N, 3, H x W) back to (N, H x W x 3)."""
    for n in range(len(planes)):
        for place in range(planes.shape[2]):
            for c in range(3):
                pixels[n, 3 * place + c] = planes[n, c, place]


@compiled
def _column_sums(plane, top, bottom, values, squares):  # type: ignore[no-untyped-def]
    """Sums of the values and squares of 8-bit rows, column by column: long runs of neighbours, as vectors want them."""
    values[:] = 0
    squares[:] = 0
    for y in range(top, bottom):
        line = plane[y]
        for x in range(line.size):
            value = np.uint32(line[x])
            values[x] += value
            squares[x] += value * value


@compiled
def integer_variances(images, region, variances):  # type: ignore[no-untyped-def]
    """Region variances of 8-bit (N, C, H, W) from exact integer sums, so that no order of values changes them."""
    count, channels, height, width = images.shape
    values, squares = np.empty((channels, width), np.uint32), np.empty((channels, width), np.uint32)
    for n in range(count):
        for row in range(variances.shape[1]):
            top, bottom = row * region, min(row * region + region, height)
            for c in range(channels):
                _column_sums(images[n, c], top, bottom, values[c], squares[c])
            for column in range(variances.shape[2]):
                left, right = column * region, min(column * region + region, width)
                pixels = (bottom - top) * (right - left)
                total = 0
                for c in range(channels):
                    first, second = np.int64(0), np.int64(0)
                    for x in range(left, right):
                        first += values[c, x]
                        second += squares[c, x]
                    total += pixels * second - first * first
                variances[n, row, column] = total / (channels * pixels * pixels)


@compiled
def _by_region(planes, region, values):  # type: ignore[no-untyped-def]
    """Copy (N, C, H, W) to (N, rows, columns, C, S x S); what a smaller region at an edge lacks stays as it is."""
    _, channels, height, width = planes.shape
    for n, row, column in np.ndindex(values.shape[:3]):
        left, right = column * region, min(column * region + region, width)
        for c in range(channels):
            line = values[n, row, column, c]
            place = 0
            for y in range(row * region, min(row * region + region, height)):
                for x in range(left, right):
                    line[place] = planes[n, c, y, x]
                    place += 1


@compiled
def _sorted_variances(values, region, height, width, variances):  # type: ignore[no-untyped-def]
    """Region variances from sorted values (N, rows, columns, C, S x S)."""
    channels = values.shape[3]
    for n, row, column in np.ndindex(variances.shape):
        pixels = min(region, height - row * region) * min(region, width - column * region)
        total = 0.0
        for c in range(channels):
            line = values[n, row, column, c, :pixels]
            mean = 0.0
            for value in line:
                mean += value
            mean /= pixels
            spread = 0.0
            for value in line:
                spread += (value - mean) * (value - mean)
            total += spread / pixels
        variances[n, row, column] = total / channels


def float_variances(planes: Array, region: int, variances: Array) -> None:
    """Region variances of float (N, C, H, W) from values in sorted order, so that no order of pixels changes them.

    numpy sorts all at once, far faster than Numba; infinity fills what edge regions lack, so it comes last.
    """
    _, channels, height, width = planes.shape
    values = np.full((*variances.shape, channels, region * region), np.inf)
    _by_region(planes, region, values)
    values.sort()
    _sorted_variances(values, region, height, width, variances)


def region_size(height: int, width: int) -> int:
    """S = 2^ceil(log2 sqrt(max(H, W))) (Eq. 1): the smallest power of two whose square covers the longer side."""
    size = 1
    while size * size < max(height, width):
        size *= 2
    return size


def planes_of(images: Array) -> Array:
    """Images (N, H, W, C) as contiguous planes (N, C, H, W); 8-bit RGB several times faster than numpy copies it."""
    count, height, width, channels = images.shape
    if images.dtype != np.uint8 or channels != 3 or not images.flags.c_contiguous:
        return np.ascontiguousarray(images.transpose(0, 3, 1, 2))
    planes = np.empty((count, channels, height, width), np.uint8)
    _split_rgb(images.reshape(count, -1), planes.reshape(count, channels, -1))
    return planes


def pixels_of(planes: Array) -> Array:
    """Contiguous planes (N, C, H, W) as images (N, H, W, C)."""
    count, channels, height, width = planes.shape
    if planes.dtype != np.uint8 or channels != 3:
        return np.ascontiguousarray(planes.transpose(0, 2, 3, 1))
    images = np.empty((count, height, width, channels), np.uint8)
    _join_rgb(planes.reshape(count, channels, -1), images.reshape(count, -1))
    return images


def region_variances(planes: Array, region: int) -> Array:
    """Variance of every region (Eq. 2) of (N, C, H, W), averaged over channels: (N, rows, columns)."""
    count, _, height, width = planes.shape
    variances = np.empty((count, -(-height // region), -(-width // region)))
    if planes.dtype == np.uint8:
        integer_variances(planes, region, variances)
    else:
        float_variances(planes.astype(np.float64), region, variances)
    return variances


def adaptive_blocks(variances: Array, region: int) -> Array:
    """Block size of every region (Eq. 3): S/4 where its variance lies above the image's median, else S/2."""
    ordered = np.sort(variances.reshape(len(variances), -1))  # np.median takes several times as long
    count = ordered.shape[1]
    median = ordered[:, count // 2] if count % 2 else (ordered[:, count // 2 - 1] + ordered[:, count // 2]) / 2
    return np.where(variances > median[:, None, None], max(region // 4, 1), max(region // 2, 1))
