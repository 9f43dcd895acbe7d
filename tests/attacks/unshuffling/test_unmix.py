"""Channels that were shuffled apart are brought together again where they look alike."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from glasshouse.attacks.unshuffling.grid import groups
from glasshouse.attacks.unshuffling.unmix import unmix
from glasshouse.defenses import csvar

KEY = bytes(range(32))
SIZES = [(32, 32), (28, 28), (30, 23)]


def shuffled(image: np.ndarray) -> np.ndarray:
    return csvar.shuffle(torch.from_numpy(image), key=KEY, ids="a", epoch=0).numpy()


def grey(photos: torch.Tensor, size: tuple[int, int]) -> np.ndarray:
    return F.interpolate(photos[:1], size=size, mode="area").mean(1)[0].numpy()


@pytest.mark.parametrize("size", SIZES)
def test_equal_channels_are_equal_again(photos, size):
    image = np.stack([grey(photos, size)] * 3)
    mixed = shuffled(image)
    assert not np.array_equal(mixed[0], mixed[1])
    found = unmix(mixed, groups(mixed))
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[2], found[1])
    assert np.array_equal(found[1], mixed[1])  # places are those of the middle channel


def test_channels_of_another_brightness_and_contrast_are_matched_too(photos):
    plane = grey(photos, (32, 32))
    image = np.stack([0.2 + 0.5 * plane, plane, 0.9 - 0.1 * (1 - plane)]).astype(np.float32)
    found = unmix(shuffled(image), groups(image))
    np.testing.assert_allclose(found[0], 0.2 + 0.5 * found[1], atol=1e-5)
    np.testing.assert_allclose(found[2], 0.9 - 0.1 * (1 - found[1]), atol=1e-5)


def test_most_colors_of_a_photograph_come_back(photos):
    image = F.interpolate(photos[1:2], size=(64, 64), mode="bilinear")[0].numpy()
    mixed = shuffled(image)

    def real(blocks_of: np.ndarray) -> float:
        """Share of blocks that the original holds in these colors."""
        hits = []
        for group in groups(image):
            known = {block.tobytes() for block in group.cut(image).transpose(1, 0, 2)}
            hits += [block.tobytes() in known for block in group.cut(blocks_of).transpose(1, 0, 2)]
        return float(np.mean(hits))

    assert real(mixed) < 0.1
    assert real(unmix(mixed, groups(mixed))) > 0.7


@pytest.mark.parametrize("channels", [1, 2, 3])
def test_blocks_change_places_inside_groups_only(channels):
    image = np.random.default_rng(0).random((channels, 30, 23), dtype=np.float32)
    kept = image.copy()
    found = unmix(image, groups(image))
    assert np.array_equal(image, kept)
    free = np.ones((30, 23), bool)
    for group in groups(image):
        for one, two in zip(group.cut(image), group.cut(found), strict=True):
            assert sorted(block.tobytes() for block in one) == sorted(block.tobytes() for block in two)
        for top, left in zip(group.tops, group.lefts, strict=True):
            free[top : top + group.height, left : left + group.width] = False
    assert np.array_equal(found[:, free], image[:, free])
    assert np.array_equal(found[channels // 2], image[channels // 2])
    if channels == 1:
        assert np.array_equal(found, image)


def test_flat_groups_do_no_harm():
    image = np.full((3, 16, 16), 0.5, np.float32)
    assert np.array_equal(unmix(image, groups(image)), image)
