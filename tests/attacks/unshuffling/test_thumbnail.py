"""Region means against a slow loop; they, and what is made of them, are the same before and after a shuffle."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from glasshouse.attacks.unshuffling.thumbnail import fingerprints, nearest, region_means, thumbnail
from glasshouse.defenses import csvar

KEY = bytes(range(32))


def pictures(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed))


def shuffled(images: torch.Tensor) -> torch.Tensor:
    return csvar.shuffle(images, key=KEY, ids=[str(place) for place in range(len(images))], epoch=3)


@pytest.mark.parametrize(("height", "width", "region"), [(16, 16, 4), (30, 23, 8), (9, 5, 4), (7, 3, 8)])
def test_means_against_a_loop(height, width, region):
    images = pictures(2, 3, height, width)
    found = region_means(images, region)
    assert found.shape == (2, 3, -(-height // region), -(-width // region))
    for row in range(found.shape[2]):
        for column in range(found.shape[3]):
            part = images[:, :, row * region : row * region + region, column * region : column * region + region]
            torch.testing.assert_close(found[:, :, row, column], part.double().mean((2, 3)).float())


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 3), st.integers(8, 80), st.integers(8, 80), st.integers(0, 99))
def test_no_shuffle_changes_them(channels, height, width, seed):
    images = pictures(2, channels, height, width, seed=seed)
    region = csvar.region_size(height, width)
    moved = shuffled(images)
    assert not torch.equal(moved, images)
    for what in (region_means, thumbnail, fingerprints):
        torch.testing.assert_close(what(moved, region), what(images, region), rtol=0, atol=1e-5)


def test_the_thumbnail_is_a_picture_with_the_means_it_was_made_of():
    images = pictures(2, 3, 30, 23)
    small = thumbnail(images, 8)
    assert small.shape == images.shape
    assert float(small.min()) >= 0
    assert float(small.max()) <= 1
    flat = torch.full((1, 3, 30, 23), 0.3)
    torch.testing.assert_close(thumbnail(flat, 8), flat)
    ramp = torch.linspace(0.2, 0.8, 64).expand(1, 1, 64, 64)
    torch.testing.assert_close(thumbnail(ramp, 8)[..., 8:-8], ramp[..., 8:-8], rtol=0, atol=0.02)


def test_fingerprints_hold_the_second_moment_too():
    flat, edge = torch.full((1, 1, 4, 4), 0.5), torch.tensor([0.0, 1.0]).repeat(8).view(1, 1, 4, 4)
    assert torch.equal(region_means(flat, 4), region_means(edge, 4))
    assert fingerprints(flat, 4).tolist() == [[0.5, 0.25]]
    assert fingerprints(edge, 4).tolist() == [[0.5, 0.5]]


def test_nearest_against_a_loop():
    queries, gallery = pictures(11, 5), pictures(7, 5, seed=1)
    expected = [min(range(7), key=lambda place: float((query - gallery[place]).square().sum())) for query in queries]
    assert nearest(queries, gallery).tolist() == expected
    assert nearest(queries, gallery, at_once=3).tolist() == expected
