"""ATS against plain arithmetic on pixels, its fifty sub-policies, and what a policy does to a picture."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image, ImageFilter

from glasshouse.defenses import create
from glasshouse.defenses.ats import OPERATIONS, SUB_POLICIES, described, read_policy, transform
from glasshouse.errors import DataError, SettingError
from glasshouse.metrics import metrics

LUMA = np.array([299, 587, 114]) / 1000


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture(scope="module")
def picture(photos) -> np.ndarray:
    """A photograph of little contrast as 8-bit (32, 32, 3)."""
    return (photos[0] * 170 + 30).round().to(torch.uint8).permute(1, 2, 0).numpy()


# --- slow versions of every operation, on arrays of floats ---


def shifted(x, down, right):
    made = np.zeros_like(x)
    for row in range(len(x)):
        for column in range(x.shape[1]):
            source_row, source_column = int(np.floor(row + 0.5 + down)), int(np.floor(column + 0.5 + right))
            if 0 <= source_row < len(x) and 0 <= source_column < x.shape[1]:
                made[row, column] = x[source_row, source_column]
    return made


def rotated(x, degrees):
    cos, sin, middle = np.cos(np.radians(degrees)), np.sin(np.radians(degrees)), len(x) / 2
    made = np.full_like(x, 128)
    for row in range(len(x)):
        for column in range(x.shape[1]):
            dy, dx = row + 0.5 - middle, column + 0.5 - middle
            source_row, source_column = (
                int(np.floor(dx * sin + dy * cos + middle)),
                int(np.floor(dx * cos - dy * sin + middle)),
            )
            if 0 <= source_row < len(x) and 0 <= source_column < x.shape[1]:
                made[row, column] = x[source_row, source_column]
    return made


def cubic(t):
    """Keys' kernel with a = -1."""
    t = abs(t)
    return t**3 - 2 * t**2 + 1 if t < 1 else -(t**3) + 5 * t**2 - 8 * t + 4


def sheared(x, magnitude):
    """Columns are moved by ``magnitude`` times their place, with cubic interpolation; outside is black."""
    made = np.zeros_like(x)
    height = len(x)
    for column in range(x.shape[1]):
        for row in range(height):
            source = row + 0.5 + magnitude * (column + 0.5)
            if 0 <= source < height:
                first = int(np.floor(source - 0.5))
                places = np.clip(range(first - 1, first + 3), 0, height - 1)
                weights = [cubic(source - 0.5 - (first + step)) for step in range(-1, 3)]
                made[row, column] = np.dot(weights, x[places, column])
    return made


def between(degenerate, x, factor):
    return degenerate + factor * (x - degenerate)


def smooth(x):
    return np.asarray(Image.fromarray(x.astype(np.uint8)).filter(ImageFilter.SMOOTH)).astype(float)


def stretched(x):
    low, high = x.min((0, 1)), x.max((0, 1))
    return (x - low) * 255 / (high - low)


def equalized(x):
    made = np.empty_like(x)
    for channel in range(3):
        counts = np.bincount(x[..., channel].astype(int).ravel(), minlength=256)
        step = (counts.sum() - counts[counts.nonzero()[0][-1]]) // 255
        table = (step // 2 + np.cumsum(counts) - counts) // step
        made[..., channel] = table[x[..., channel].astype(int)]
    return made


EXPECTED = {
    "shearY": (10, lambda x, sign: sheared(x, sign * 0.3 * 5 / 9)),
    "translateX": (3, lambda x, sign: shifted(x, 0, sign * 150 / 331 * 32)),
    "translateY": (7, lambda x, sign: shifted(x, sign * 150 / 331 * 2 / 9 * 32, 0)),
    "rotate": (2, lambda x, sign: rotated(x, 30 * 2 / 9)),
    "color": (27, lambda x, sign: between(np.round(x @ LUMA)[..., None], x, 1 + sign * 0.5 * 8 / 9)),
    "contrast": (1, lambda x, sign: between(np.round(np.mean(x @ LUMA)), x, 1 + sign * 0.5 * 6 / 9)),
    "sharpness": (14, lambda x, sign: between(smooth(x), x, 1 + sign * 0.5)),
    "brightness": (15, lambda x, sign: x * (1 + sign * 0.5)),
    "posterize": (11, lambda x, sign: x - x % 4),
    "solarize": (37, lambda x, sign: np.where(x < 256 * 5 / 9, x, 255 - x)),
    "autocontrast": (8, lambda x, sign: stretched(x)),
    "equalize": (9, lambda x, sign: equalized(x)),
    "invert": (0, lambda x, sign: 255 - x),
}


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("name", OPERATIONS)
def test_against_arithmetic(name, sign, picture):
    index, slow = EXPECTED[name]
    assert SUB_POLICIES[index][0] == name
    found = np.asarray(transform(Image.fromarray(picture), index, sign)).astype(float)
    expected = slow(picture.astype(float), sign).clip(0, 255)
    assert np.abs(found - expected).max() <= 1.5  # rounding of the result, and of a mean or a grey value before it
    assert not np.array_equal(found, picture)


def test_all_fifty_sub_policies_run(photos):
    assert len(SUB_POLICIES) == 50
    assert {name for name, _ in SUB_POLICIES} == set(OPERATIONS)
    identities = []
    for index in range(50):
        made = create(f"ats:policy={index}").on_images(photos[:1], rng=rng())
        assert made.shape == (1, 3, 32, 32)
        assert 0 <= float(made.min()) <= float(made.max()) <= 1
        if torch.equal(made, photos[:1]):
            identities.append(index)
    assert {28, 39} <= set(identities)  # solarize from 256, and no change of colour
    assert not {0, 2, 3, 7, 15} & set(identities)


@pytest.mark.parametrize(("policy", "rows", "columns"), [("3-1-7", {3, 4}, {14, 15}), ("43-18-18", {4, 5}, {0})])
def test_published_policies_push_part_of_the_picture_out(policy, rows, columns):
    images = torch.rand(64, 3, 32, 32, generator=rng())
    made = create(f"ats:policy={policy}").on_images(images, rng=rng())
    empty_rows = (made.amax(3) == made.amin(3)).all(1)
    middle = made[:, :, 5:27]  # no part of rows that are empty
    empty_columns = (middle.amax(2) == middle.amin(2)).all(1)
    assert set(empty_rows.sum(1).tolist()) <= rows
    assert set(empty_columns.sum(1).tolist()) <= columns
    low, high = (made.amax((1, 2, 3)) * 255).round().unique()[[0, -1]].tolist()
    assert low < 230 < high == 255  # contrast goes down for some images and up for others


def test_a_hybrid_draws_one_list_per_image():
    images = torch.full((64, 3, 8, 8), 0.25)
    made = create("ats:policy=0-0-0+28").on_images(images, rng=rng())
    values = made.flatten(1).unique(dim=1).flatten()
    inverted = int((values > 0.5).sum())
    assert 16 < inverted < 48
    assert set((values * 255).round().int().tolist()) == {64, 191}


def test_directions_are_drawn_for_every_image():
    images = torch.full((64, 3, 9, 9), 0.5)
    darker = (create("ats:policy=15").on_images(images, rng=rng()).mean((1, 2, 3)) < 0.5).sum()
    assert 16 < int(darker) < 48


def test_grey_is_colour_with_three_equal_channels(photos):
    grey = (photos.mean(1, keepdim=True) * 255).round() / 255
    for policy in ("3-1-7", "43-18-18", "2-6-9", "12-14-37"):
        one = create(f"ats:policy={policy}").on_images(grey, rng=rng())
        three = create(f"ats:policy={policy}").on_images(grey.expand(-1, 3, -1, -1), rng=rng())
        assert one.shape == grey.shape
        torch.testing.assert_close(three, one.expand_as(three))


def test_the_picture_is_no_longer_where_it_was(photos):
    ssim = metrics.create("ssim")
    like = {text: ssim.per_image(photos, create(text).on_images(photos, rng=rng())) for text in ("ats", "ats:policy=4")}
    assert float(like["ats"].max()) < 0.5 < float(like["ats:policy=4"].min())


def test_same_seed_same_result(photos):
    defense = create("ats:policy=3-1-7+43-18-18")
    assert torch.equal(defense.on_images(photos, rng=rng(1)), defense.on_images(photos, rng=rng(1)))
    assert not torch.equal(defense.on_images(photos, rng=rng(1)), defense.on_images(photos, rng=rng(2)))
    assert create(defense.spec) == defense


@pytest.mark.parametrize("text", ["3-1-", "a-b-c", "-3", "3+", "3--1", "3_1", "+", "99999"])
def test_unreadable_policies(text):
    with pytest.raises(SettingError, match=r"cannot be read: write sub-policies as 3-1-7"):
        create(f"ats:policy={text}")


def test_unknown_sub_policies_and_odd_images():
    assert read_policy("3-1-7+43-18") == ((3, 1, 7), (43, 18))
    assert described("3-1-7+43") == "translateX9, contrast6, translateY2 or translateY3"
    with pytest.raises(SettingError, match="names sub-policy 50, but they are numbered 0 to 49"):
        create("ats:policy=3-50-7")
    with pytest.raises(DataError, match="4 channels"):
        create("ats").on_images(torch.rand(1, 4, 8, 8), rng=rng())
    assert create("ats").acts_on == "images"
