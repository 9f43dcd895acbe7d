"""VisualMixer: its entropy against a slow loop, values that only change places, finer where there is more to see."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from glasshouse.defenses import create
from glasshouse.defenses.visual_mixer import visual_feature_entropy
from glasshouse.errors import SettingError
from glasshouse.metrics import metrics


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def regions(height: int, width: int, side: int) -> list[tuple[slice, slice]]:
    return [
        (slice(top, top + side), slice(left, left + side))
        for top in range(0, height, side)
        for left in range(0, width, side)
    ]


@pytest.mark.parametrize(("height", "width", "side"), [(16, 16, 8), (11, 14, 4), (5, 3, 8)])
def test_entropy_against_a_loop(height, width, side):
    images = torch.rand(2, 3, height, width, generator=rng(), dtype=torch.float64)
    found = visual_feature_entropy(images, side)
    for n in range(2):
        for c in range(3):
            for number, (rows, columns) in enumerate(regions(height, width, side)):
                part = images[n, c, rows, columns]
                total = 0.0
                for y in range(part.shape[0]):
                    for x in range(part.shape[1]):
                        if x + 1 < part.shape[1]:
                            total += float(part[y, x + 1] - part[y, x]) ** 2
                        if y + 1 < part.shape[0]:
                            total += float(part[y + 1, x] - part[y, x]) ** 2
                assert float(found[n, c, number]) == pytest.approx(total * 64 / part.numel())


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 3),
    st.sampled_from([1, 3]),
    st.integers(1, 21),
    st.integers(1, 21),
    st.integers(2, 9),
    st.integers(0, 10**6),
)
def test_values_of_a_region_and_channel_only_change_places(count, channels, height, width, side, seed):
    images = torch.rand(count, channels, height, width, generator=rng(seed))
    made = create(f"visual_mixer:region={side}").on_images(images, rng=rng(seed + 1))
    for rows, columns in regions(height, width, side):
        before, after = (one[..., rows, columns].flatten(2).sort().values for one in (images, made))
        assert torch.equal(before, after)


def test_pieces_follow_the_entropy_of_image_and_region():
    """Regions with an edge each: 100, 5, 30 and 70 % of the largest entropy, read off the authors' table by hand."""
    image = torch.zeros(1, 1, 16, 16)
    for (rows, columns), share in zip(regions(16, 16, 8), (1, 0.05, 0.3, 0.7), strict=True):
        image[..., rows, columns.start + 4 : columns.stop] = 0.3 * share**0.5
    entropy = visual_feature_entropy(image, 8).flatten().tolist()
    assert entropy == pytest.approx([8 * 0.09 * share for share in (1, 0.05, 0.3, 0.7)])
    expected = {"": [1, 4, 2, 1], "low=0.3": [1, 2, 1, 1], "low=0.3,high=0.36": [1, 1, 1, 1], "region=16": [4]}
    for text, sizes in expected.items():
        defense = create(f"visual_mixer:{text}".rstrip(":"))
        assert defense.block_sizes(image).flatten().tolist() == sizes


def test_pieces_stay_whole():
    """Where pieces are 4 x 4, every piece of the result is a piece of the original."""
    images = torch.linspace(0, 0.1, 64).view(1, 1, 8, 8)
    defense = create("visual_mixer")
    assert defense.block_sizes(images).flatten().tolist() == [4]
    made = defense.on_images(images, rng=rng(3))
    before, after = (
        {tuple(one[0, 0, y : y + 4, x : x + 4].flatten().tolist()) for y in (0, 4) for x in (0, 4)}
        for one in (images, made)
    )
    assert before == after
    assert not torch.equal(images, made)


def test_all_orders_are_equally_likely():
    images = torch.linspace(0, 0.01, 64).view(1, 1, 8, 8).expand(4096, 1, 8, 8)
    corners = create("visual_mixer").on_images(images, rng=rng())[:, 0, 0, 0]
    values, counts = corners.unique(return_counts=True)
    assert len(values) == 4
    assert float((counts / 4096 - 0.25).abs().max()) < 0.03


def test_channels_and_images_are_shuffled_independently():
    images = torch.rand(1, 1, 8, 8, generator=rng()).expand(2, 3, 8, 8)
    planes = create("visual_mixer").on_images(images, rng=rng()).flatten(0, 1).flatten(1)
    assert len(planes.unique(dim=0)) == 6


def test_pictures_are_hidden_and_look_like_noise(photos):
    made = create("visual_mixer").on_images(photos, rng=rng())
    assert float(metrics.create("ssim").per_image(photos, made).max()) < 0.5
    before, after = (visual_feature_entropy(one, 8).mean((1, 2)) for one in (photos, made))
    assert bool((after > 1.2 * before).all())
    flat = torch.full((1, 3, 16, 16), 0.4)
    assert torch.equal(create("visual_mixer").on_images(flat, rng=rng()), flat)


def test_same_seed_same_result(photos):
    defense = create("visual_mixer:region=16,low=0.1")
    first, second, third = (defense.on_images(photos, rng=rng(seed)) for seed in (1, 1, 2))
    assert torch.equal(first, second)
    assert not torch.equal(first, third)
    assert create(defense.spec) == defense
    assert defense.acts_on == "images"


def test_bad_settings():
    with pytest.raises(SettingError, match="region=1 is out of range"):
        create("visual_mixer:region=1")
    with pytest.raises(SettingError, match=r"high=0.2 lies below low=0.5: exchange"):
        create("visual_mixer:high=0.2")
    with pytest.raises(SettingError, match="low=-1"):
        create("visual_mixer:low=-1")
