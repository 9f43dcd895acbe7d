"""The cost of seams against a slow version; smooth pictures are solved; blocks are never lost."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from glasshouse.attacks.unshuffling.grid import Group, groups
from glasshouse.attacks.unshuffling.jigsaw import PRIOR_WEIGHT, _best_order, _cost, _seams, solve
from glasshouse.attacks.unshuffling.thumbnail import thumbnail
from glasshouse.defenses import csvar

KEY = bytes(range(32))


def shuffled(image: np.ndarray) -> np.ndarray:
    """Channels together, as parts A and B leave them."""
    return csvar.shuffle(torch.from_numpy(image), key=KEY, ids="a", epoch=0, channel_wise=False).numpy()


def prior_of(image: np.ndarray) -> np.ndarray:
    return thumbnail(torch.from_numpy(image)[None], csvar.region_size(*image.shape[1:]))[0].numpy()


def smooth(channels: int, height: int, width: int) -> np.ndarray:
    y, x = np.mgrid[:height, :width] / max(height, width)
    plane = 0.5 + 0.25 * np.sin(7 * x + 1) * np.cos(6 * y) + 0.2 * np.sin(3 * x - 2 * y)
    return np.stack([plane * share for share in (1, 0.9, 0.8)][:channels]).astype(np.float32)


def slow_seams(image: np.ndarray, prior: np.ndarray, top: int, left: int, height: int, width: int) -> float:
    image, prior = image.astype(np.float64), prior.astype(np.float64)
    rows, columns = slice(top, top + height), slice(left, left + width)
    cost = 0.0
    for inner, outer in ((top, top - 1), (top + height - 1, top + height)):
        if 0 <= outer < image.shape[1]:
            cost += np.abs(image[:, inner, columns] - image[:, outer, columns]).sum()
    for inner, outer in ((left, left - 1), (left + width - 1, left + width)):
        if 0 <= outer < image.shape[2]:
            cost += np.abs(image[:, rows, inner] - image[:, rows, outer]).sum()
    off = np.abs((image - prior)[:, rows, columns].mean((1, 2))).sum()
    return cost + PRIOR_WEIGHT * off * (height + width)


@settings(max_examples=50, deadline=None)
@given(st.data(), st.integers(1, 3), st.integers(4, 20), st.integers(4, 20), st.integers(0, 99))
def test_the_cost_of_a_block_against_a_slow_version(data, channels, rows, columns, seed):
    rng = np.random.default_rng(seed)
    image, prior = (rng.random((channels, rows, columns), dtype=np.float32) for _ in range(2))
    height, width = data.draw(st.integers(1, rows)), data.draw(st.integers(1, columns))
    top, left = data.draw(st.integers(0, rows - height)), data.draw(st.integers(0, columns - width))
    found = _seams(image, prior, top, left, height, width)
    assert found == pytest.approx(slow_seams(image, prior, top, left, height, width), rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("channels", [1, 3])
def test_a_smooth_picture_is_put_together_again(channels):
    image = smooth(channels, 32, 32)
    places, mixed = groups(image), shuffled(image)

    def in_place(guess: np.ndarray) -> float:
        return float(np.concatenate([(group.cut(guess) == group.cut(image)).all((0, 2)) for group in places]).mean())

    found = solve(mixed, prior_of(mixed), groups(mixed), seed=0)
    assert in_place(mixed) < 0.2
    assert in_place(found) > 0.9
    seams = [sum(_cost(one, prior_of(mixed), group) for group in places) for one in (image, found, mixed)]
    assert seams[1] < 1.02 * seams[0] < 0.3 * seams[2]


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 3), st.integers(8, 24), st.integers(8, 24), st.integers(0, 99))
def test_blocks_change_places_inside_groups_only(channels, height, width, seed):
    image = np.random.default_rng(seed).random((channels, height, width), dtype=np.float32)
    kept, places = image.copy(), groups(image)
    found = solve(image, prior_of(image), places, seed=seed)
    assert np.array_equal(image, kept)
    free = np.ones((height, width), bool)
    for group in places:
        before, after = (
            sorted(block.tobytes() for block in group.cut(one).transpose(1, 0, 2)) for one in (image, found)
        )
        assert before == after  # channels stay together
        for top, left in zip(group.tops, group.lefts, strict=True):
            free[top : top + group.height, left : left + group.width] = False
    assert np.array_equal(found[:, free], image[:, free])


def test_a_small_group_gets_the_best_of_all_orders():
    rng = np.random.default_rng(1)
    image, prior = (rng.random((2, 10, 10), dtype=np.float32) for _ in range(2))
    group = Group(np.array([2, 2, 5, 5]), np.array([1, 4, 1, 4]), 3, 3)
    blocks = group.cut(image)
    costs = {}
    for order in itertools.permutations(range(4)):
        other = image.copy()
        for channel in range(2):
            group.paste(other, channel, blocks[channel, list(order)])
        costs[order] = sum(slow_seams(other, prior, y, x, 3, 3) for y, x in zip(group.tops, group.lefts, strict=True))
    assert _cost(image, prior, group) == pytest.approx(costs[0, 1, 2, 3], rel=1e-4)
    _best_order(image, prior, group)
    best = min(costs, key=costs.__getitem__)
    assert best != (0, 1, 2, 3)
    assert np.array_equal(group.cut(image), blocks[:, list(best)])


def test_same_seed_same_result_and_no_other_randomness():
    image = np.random.default_rng(0).random((1, 32, 32), dtype=np.float32)
    np.random.seed(5)
    before = np.random.get_state()[1].copy()
    first, second, third = (solve(image, prior_of(image), groups(image), seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(first, second)
    assert not np.array_equal(first, third)
    assert np.array_equal(np.random.get_state()[1], before)


def test_nothing_to_order():
    image = np.random.default_rng(0).random((1, 8, 8), dtype=np.float32)
    found = solve(image, image, [], seed=0)
    assert np.array_equal(found, image)
    assert found is not image
