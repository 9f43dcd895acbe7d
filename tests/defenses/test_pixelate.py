"""Pixelation against a slow loop."""

from __future__ import annotations

import pytest
import torch

from glasshouse.defenses import create
from glasshouse.errors import SettingError


@pytest.mark.parametrize(("height", "width", "factor"), [(8, 8, 4), (7, 10, 3), (5, 5, 9), (4, 6, 1)])
def test_against_a_loop(height, width, factor, rng):
    images = torch.rand(2, 3, height, width, generator=rng)
    expected = images.clone()
    for y in range(0, height, factor):
        for x in range(0, width, factor):
            square = images[:, :, y : y + factor, x : x + factor]
            expected[:, :, y : y + factor, x : x + factor] = square.mean((2, 3), keepdim=True)
    torch.testing.assert_close(create(f"pixelate:factor={factor}").on_images(images, rng=rng), expected)


def test_bad_settings():
    with pytest.raises(SettingError, match="factor=0"):
        create("pixelate:factor=0")
    assert create("pixelate").acts_on == "images"
