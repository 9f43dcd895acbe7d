"""Degraded copies: nothing at degree 0, less and less to see, the same by seed; pictures of nothing show nothing."""

from __future__ import annotations

import pytest
import torch

from glasshouse import data
from glasshouse.metrics import create
from glasshouse.semsim.degradations import KINDS, blur, cast, degraded, empty, noise, phases, scattered


@pytest.fixture(scope="module")
def photos():
    return data.load("photos:size=32").batch(range(6))[0]


def seeded(number=0):
    return torch.Generator().manual_seed(number)


@pytest.mark.parametrize("kind", KINDS)
def test_degree_0_changes_nothing_and_more_hides_more(kind, photos):
    ssim = create("ssim")
    levels = []
    for degree in (0.0, 0.3, 0.9):
        hidden = torch.stack([KINDS[kind](photo, degree, seeded(place)) for place, photo in enumerate(photos)])
        assert hidden.shape == photos.shape
        levels.append(float(ssim(photos, hidden.clamp(0, 1)).mean()))
    torch.testing.assert_close(KINDS[kind](photos[0], 0.0, seeded()), photos[0], atol=1e-5, rtol=0)
    assert levels[0] > levels[1] > levels[2]


def test_noise_has_the_standard_deviation_that_it_says():
    assert noise(torch.zeros(3, 64, 64), 0.25, seeded()).std().item() == pytest.approx(0.8 * 0.25**1.5, rel=0.03)


def test_phases_keep_every_frequency_and_scattering_every_colour_but_nothing_else(photos):
    photo = photos[0]
    turned = phases(photo, 0.8, seeded())
    torch.testing.assert_close(turned.mean((1, 2)), photo.mean((1, 2)), atol=1e-4, rtol=0)
    inside = (slice(None), slice(1, 16), slice(1, 16))  # a real image's other waves are not free to turn
    spectra = (torch.fft.rfft2(one).abs()[inside] for one in (turned, photo))
    torch.testing.assert_close(*spectra, atol=1e-3, rtol=1e-3)
    moved, there = (set(map(tuple, one.flatten(1).T.tolist())) for one in (scattered(photo, 1.0, seeded()), photo))
    assert moved <= there


def test_blur_against_a_loop(photos):
    small = torch.stack(
        [
            photos[0][:, 4 * row : 4 * row + 4, 4 * column : 4 * column + 4].mean((1, 2))
            for row in range(8)
            for column in range(8)
        ],
        1,
    ).view(3, 8, 8)
    found = blur(photos[0], 3 / 7)
    assert found[:, 0, 0].tolist() == pytest.approx(small[:, 0, 0].tolist(), abs=1e-5)
    assert found[:, -1, -1].tolist() == pytest.approx(small[:, -1, -1].tolist(), abs=1e-5)


def test_a_cast_leaves_the_structure(photos):
    changed = cast(photos[0], 0.5, seeded())
    for one, other in zip(photos[0], changed, strict=True):
        assert torch.corrcoef(torch.stack([one.flatten(), other.flatten()]))[0, 1] > 0.999


def test_the_same_by_seed_in_range_and_of_many_degrees(photos):
    first, again, other = (degraded(photos, 1.0, seeded(number)) for number in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert float(first.min()) >= 0
    assert float(first.max()) <= 1
    many = photos.repeat(10, 1, 1, 1)
    mild, strong = (create("ssim")(many, degraded(many, most, seeded())) for most in (0.3, 1.0))
    assert mild.mean() > strong.mean() + 0.1
    assert strong.min() < 0.2 < 0.8 < strong.max()


def test_pictures_of_nothing_have_nothing_of_the_image(photos):
    many = photos.repeat(5, 1, 1, 1)
    assert create("ssim")(many, empty(many, seeded())).mean() < 0.15
    grey = photos.mean(1, keepdim=True)
    assert empty(grey, seeded()).shape == degraded(grey, 0.5, seeded()).shape == grey.shape
