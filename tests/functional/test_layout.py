"""Images lie plane by plane, also where one channel makes that ambiguous."""

from __future__ import annotations

import pytest
import torch

from glasshouse import data
from glasshouse.functional.layout import planar


@pytest.mark.parametrize("channels", [1, 3])
def test_strides_are_those_of_planes(channels):
    images = torch.rand(2, 5, 7, channels).permute(0, 3, 1, 2)
    found = planar(images)
    assert torch.equal(found, images)
    assert found.stride() == (channels * 35, 35, 7, 1)
    assert planar(found) is found


def test_data_sets_give_planes():
    images, _ = data.load("digits").batch([0, 1])
    assert images.stride() == (64, 64, 8, 1)


def test_a_narrow_network_trains_on_grey_images(forked):
    code = """
import torch
from glasshouse import models
from glasshouse.training import Recipe, fit
from glasshouse.types import ImageSpec
torch.set_num_threads(1)
images = torch.rand(12, 32, 32, 1).permute(0, 3, 1, 2)
model = models.create("resnet20:width=8", ImageSpec(1, 32, 32, 10))
fit(model, images, torch.arange(12) % 10, Recipe(epochs=3, batch=6))
"""
    assert forked(code).returncode == 0
