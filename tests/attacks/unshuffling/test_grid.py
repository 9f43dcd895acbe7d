"""Where blocks lie: what the shuffle moves is what the attack may put back, no more and no less."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from glasshouse.attacks.unshuffling.grid import Group, groups
from glasshouse.defenses import csvar

KEY = bytes(range(32))

shapes = st.tuples(st.integers(1, 3), st.integers(8, 80), st.integers(8, 80))
blocks = st.sampled_from([None, None, 1, 2, 3, 4])


def picture(shape, seed: int, *, floats: bool = True) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.random(shape, dtype=np.float32) if floats else rng.integers(0, 256, shape, dtype=np.uint8)


def shuffled(image: np.ndarray, epoch: int = 0, block: int | None = None) -> np.ndarray:
    return csvar.shuffle(torch.from_numpy(image), key=KEY, ids="a", epoch=epoch, block_size=block).numpy()


def corners(found: list[Group]) -> set[tuple]:
    """Groups as plain values, in no order."""
    return {
        (group.height, group.width, frozenset(zip(group.tops.tolist(), group.lefts.tolist(), strict=True)))
        for group in found
    }


def slow_groups(image: np.ndarray, block: int | None) -> set[tuple]:
    """Blocks of one shape in one region, found by cutting every region row by row; those alone of their kind stay."""
    _, height, width = image.shape
    region = csvar.region_size(height, width)
    sizes = csvar.block_sizes(np.ascontiguousarray(image.transpose(1, 2, 0)))
    found = set()
    for top, left in itertools.product(range(0, height, region), range(0, width, region)):
        size = int(sizes[top // region, left // region]) if block is None else block
        bottom, right = min(top + region, height), min(left + region, width)
        alike: dict[tuple[int, int], set[tuple[int, int]]] = {}
        for y, x in itertools.product(range(top, bottom, size), range(left, right, size)):
            alike.setdefault((min(size, bottom - y), min(size, right - x)), set()).add((y, x))
        found |= {(*shape, frozenset(places)) for shape, places in alike.items() if len(places) > 1}
    return found


@settings(max_examples=50, deadline=None)
@given(shape=shapes, seed=st.integers(0, 99), floats=st.booleans(), block=blocks)
def test_the_shuffle_moves_blocks_inside_groups_and_nothing_else(shape, seed, floats, block):
    assume(block is None or block < csvar.region_size(*shape[1:]))
    image = picture(shape, seed, floats=floats)
    after = shuffled(image, seed, block)
    places = groups(image, block)
    assert corners(groups(after, block)) == corners(places)
    free = np.ones(shape[1:], bool)
    for group in places:
        for one, two in zip(group.cut(image), group.cut(after), strict=True):
            assert sorted(block.tobytes() for block in one) == sorted(block.tobytes() for block in two)
        for top, left in zip(group.tops, group.lefts, strict=True):
            part = free[top : top + group.height, left : left + group.width]
            assert part.shape == (group.height, group.width)
            assert part.all()  # in no group yet
            part[...] = False
    assert np.array_equal(image[:, free], after[:, free])


@settings(max_examples=40, deadline=None)
@given(shape=shapes, seed=st.integers(0, 99), block=blocks)
def test_groups_against_a_slow_version(shape, seed, block):
    image = picture(shape, seed)
    assert corners(groups(image, block)) == slow_groups(image, block)


def test_every_block_of_a_group_reaches_every_place_of_it():
    image = np.random.default_rng(0).permutation(14 * 13).astype(np.uint8).reshape(1, 14, 13)  # no value twice
    places = groups(image)
    assert {(group.height, group.width) for group in places} == {(1, 1), (2, 2), (2, 1)}
    versions = [shuffled(image, epoch) for epoch in range(120)]
    for group in places:
        first = group.cut(image)[0, 0]
        reached = {int(np.flatnonzero((group.cut(version)[0] == first).all(1))[0]) for version in versions}
        assert reached == set(range(len(group.tops)))


@settings(max_examples=30, deadline=None)
@given(shape=shapes, seed=st.integers(0, 99))
def test_cut_and_paste_are_each_others_inverse(shape, seed):
    image = picture(shape, seed)
    for group in groups(image):
        blocks = group.cut(image)
        assert blocks.shape == (shape[0], len(group.tops), group.height * group.width)
        changed = image.copy()
        group.paste(changed, shape[0] - 1, blocks[-1])
        assert np.array_equal(changed, image)
        group.paste(changed, 0, blocks[0, ::-1])
        assert np.array_equal(group.cut(changed)[0], blocks[0, ::-1])
        assert np.array_equal(changed[1:], image[1:])
        rest = np.ones(shape[1:], bool)
        for top, left in zip(group.tops, group.lefts, strict=True):
            rest[top : top + group.height, left : left + group.width] = False
        assert np.array_equal(changed[:, rest], image[:, rest])


@pytest.mark.parametrize("block", [8, 64])
def test_blocks_as_large_as_the_region_leave_nothing_to_order(block):
    assert groups(picture((3, 32, 32), 0), block) == []


def test_a_paste_of_too_few_blocks_is_refused():
    image = picture((1, 16, 16), 0)
    group = groups(image)[0]
    with pytest.raises(ValueError, match="zip"):
        group.paste(image, 0, group.cut(image)[0, 1:])
