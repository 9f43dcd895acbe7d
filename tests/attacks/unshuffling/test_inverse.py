"""The learned inverse: a few steps bring it nearer, from public images alone, and randomness stays its own."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from glasshouse.attacks.unshuffling.inverse import Inverse, Training, invert, learn
from glasshouse.errors import SettingError

FEW = Training(steps=25, batch=16, width=8)


def test_learning_brings_it_nearer_to_images_it_never_saw(world):
    first, last = (learn(world.practice(), 4, Training(steps=steps, batch=16, width=8)) for steps in (1, FEW.steps))
    before, after = (float(F.l1_loss(invert(one, world.versions[0]), world.truth)) for one in (first, last))
    assert after < 0.75 * before


def test_same_seed_same_result_and_the_global_generator_is_left_alone(world):
    short = {"steps": 2, "batch": 8, "width": 4}
    state = torch.get_rng_state()
    one, two, other = (
        invert(learn(world.practice(), 4, Training(**short, seed=seed)), world.versions[0]) for seed in (0, 0, 1)
    )
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(one, two)
    assert not torch.equal(one, other)


@pytest.mark.parametrize("size", [(16, 16), (28, 28), (30, 23), (9, 5)])
@pytest.mark.parametrize("channels", [1, 3])
def test_every_size_and_guesses_are_pictures(size, channels):
    torch.manual_seed(0)
    images = torch.rand(3, channels, *size)
    network = Inverse(channels, 8, 4).eval()
    whole = invert(network, images)
    assert whole.shape == images.shape
    assert float(whole.min()) >= 0
    assert float(whole.max()) <= 1
    torch.testing.assert_close(invert(network, images, at_once=2), whole)


def test_it_sees_where_in_its_region_a_pixel_lies():
    grid = Inverse(1, 4, 4)._places(torch.zeros(2, 1, 6, 5))
    assert grid.shape == (2, 2, 6, 5)
    assert grid[1, 0, :, 2].tolist() == [-1, -0.5, 0, 0.5, -1, -0.5]
    assert grid[0, 1, 3].tolist() == [-1, -0.5, 0, 0.5, -1]


def test_progress_ends_at_one(world):
    shares: list[float] = []
    learn(world.practice(), 4, Training(steps=3, batch=8, width=4), progress=shares.append)
    assert shares == pytest.approx([1 / 3, 2 / 3, 1])


@pytest.mark.parametrize("name", ["steps", "batch", "width"])
def test_bad_settings(name):
    with pytest.raises(SettingError, match=f"{name}=0 is out of range"):
        Training(**{name: 0})
