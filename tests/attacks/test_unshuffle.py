"""Unshuffle brings shuffled images clearly nearer to their originals, and starts from what InvGrad finds."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch.nn import functional as F

from glasshouse import data
from glasshouse.attacks import attacks
from glasshouse.attacks.unshuffle import unshuffled
from glasshouse.attacks.unshuffling.grid import groups
from glasshouse.attacks.unshuffling.thumbnail import thumbnail
from glasshouse.data.crops import photo_crops
from glasshouse.defenses import create as create_defense
from glasshouse.defenses import csvar
from glasshouse.errors import CapabilityError, SettingError
from glasshouse.metrics import create as create_metric

KEY = bytes(range(32))
CASES = [(28, 28), (30, 23), (112, 92)]


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture(scope="module")
def large() -> torch.Tensor:
    return data.load("photos", size=112).batch(range(2))[0]


def pictures(large: torch.Tensor, size: tuple[int, int], channels: int) -> torch.Tensor:
    """Two photographs, 8-bit, in another size."""
    images = F.interpolate(large, size=size, mode="bilinear", antialias=True)
    images = images if channels == 3 else images.mean(1, keepdim=True)
    return (images * 255).round() / 255


def shuffled(images: torch.Tensor, **options) -> torch.Tensor:
    ids = [str(place) for place in range(len(images))]
    return csvar.shuffle(images, key=KEY, ids=ids, epoch=0, **options)


def put_back(images: torch.Tensor, **options) -> torch.Tensor:
    return torch.stack([unshuffled(image, seed, **options) for seed, image in enumerate(images)])


def gains(truth: torch.Tensor, hidden: torch.Tensor, found: torch.Tensor) -> tuple[float, float]:
    """By how much PSNR and SSIM rose, on average."""
    scores = [[float(create_metric(name)(truth, one).mean()) for one in (hidden, found)] for name in ("psnr", "ssim")]
    return scores[0][1] - scores[0][0], scores[1][1] - scores[1][0]


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("size", CASES)
def test_a_shuffled_image_comes_clearly_nearer_to_its_original(large, size, channels):
    truth = pictures(large, size, channels)
    hidden = shuffled(truth)
    psnr, ssim = gains(truth, hidden, put_back(hidden))
    assert psnr > 2
    assert ssim > 0.2


def test_what_a_gradient_gives_of_an_image_is_enough(large):
    """An inversion does not find values to the bit: noise must not spoil the order."""
    truth = pictures(large, (32, 32), 3)
    hidden = (shuffled(truth) + 0.02 * torch.randn(truth.shape, generator=rng())).clamp(0, 1)
    psnr, ssim = gains(truth, hidden, put_back(hidden))
    assert psnr > 1.5
    assert ssim > 0.15


def test_knowing_that_channels_moved_together_helps(large):
    truth = pictures(large, (32, 32), 3)
    hidden = shuffled(truth, channel_wise=False)
    apart, together = (put_back(hidden, channel_wise=knows) for knows in (True, False))
    colors = {tuple(color) for color in truth.permute(0, 2, 3, 1).reshape(-1, 3).tolist()}
    assert {tuple(color) for color in together.permute(0, 2, 3, 1).reshape(-1, 3).tolist()} == colors
    assert gains(truth, apart, together)[0] > 0


def test_knowing_a_fixed_block_size_helps(large):
    truth = pictures(large, (32, 32), 3)
    hidden = shuffled(truth, block_size=4)
    blind = put_back(hidden)
    told = torch.stack([unshuffled(one, seed, groups(one.numpy(), 4)) for seed, one in enumerate(hidden)])
    assert gains(truth, blind, told)[0] > 1


@pytest.mark.parametrize("size", [(16, 16), (30, 23)])
def test_same_seed_same_picture_and_no_value_is_lost(large, size):
    hidden = shuffled(pictures(large, size, 3))[0]
    kept = hidden.clone()
    first, second, other = (unshuffled(hidden, seed) for seed in (3, 3, 4))
    assert torch.equal(hidden, kept)
    assert torch.equal(first, second)
    assert not torch.equal(first, other)
    assert torch.equal(first.flatten(1).sort().values, hidden.flatten(1).sort().values)


def test_it_is_invgrad_and_then_the_jigsaw(lenet, small_photos, observe):
    hidden = create_defense("csvar").on_images(small_photos[:2], rng=rng(1))
    seen = observe(lenet, hidden, torch.tensor([1, 2]))
    plain, found = (attacks.create(f"{name}:steps=5")(lenet, seen, rng=rng()) for name in ("invgrad", "unshuffle"))
    assert found.objective == plain.objective
    assert torch.equal(found.labels, plain.labels)
    assert not torch.equal(found.images, plain.images)
    for top in range(0, 16, 4):
        for left in range(0, 16, 4):
            one, two = (x.images[..., top : top + 4, left : left + 4].flatten(2) for x in (plain, found))
            assert torch.equal(one.sort().values, two.sort().values)
    assert attacks.create("unshuffle:steps=7,tv=0.01").steps == 7


def found_by(lenet, seen, spec: str) -> torch.Tensor:
    return attacks.create(f"unshuffle:steps=2,{spec}")(lenet, seen, rng=rng()).images


def test_each_part_makes_its_own_picture_of_what_was_found(lenet, small_photos, observe):
    hidden = create_defense("csvar").on_images(small_photos[:2], rng=rng(1))
    seen = observe(lenet, hidden, torch.tensor([1, 2]))
    plain = attacks.create("invgrad:steps=2")(lenet, seen, rng=rng()).images
    assert torch.equal(found_by(lenet, seen, "part=thumbnail"), thumbnail(plain, 4))
    unmixed = found_by(lenet, seen, "part=unmixed")
    assert torch.equal(unmixed[:, 1], plain[:, 1])  # all channels follow the middle one
    assert torch.equal(unmixed.flatten(2).sort().values, plain.flatten(2).sort().values)
    assert torch.equal(found_by(lenet, seen, "part=unmixed,channel_wise=false"), plain)
    with pytest.raises(CapabilityError, match="practises on public images"):
        found_by(lenet, seen, "part=learned")
    seen = dataclasses.replace(seen, public=photo_crops(seen.image, 40, 0))
    learned = found_by(lenet, seen, "part=learned,practice=1")
    assert torch.equal(learned, found_by(lenet, seen, "part=learned,practice=1"))
    assert not torch.equal(learned, found_by(lenet, seen, "part=learned,practice=2"))


def test_known_settings_of_the_shuffle_are_used(lenet, small_photos, observe):
    seen = observe(lenet, small_photos[:2], torch.tensor([1, 2]))
    left = rng()  # as the inversion leaves it
    plain = attacks.create("invgrad:steps=2")(lenet, seen, rng=left).images
    seeds = torch.randint(0, 2**31, (2,), generator=left).tolist()
    told = found_by(lenet, seen, "block_size=2,channel_wise=false")
    for image, seed, made in zip(plain, seeds, told, strict=True):
        assert torch.equal(made, unshuffled(image, seed, groups(image.numpy(), 2), channel_wise=False))


@pytest.mark.parametrize("text", ["block_size=0", "practice=0", "steps=0"])
def test_bad_settings(text):
    with pytest.raises(SettingError, match=f"{text} is out of range"):
        attacks.create(f"unshuffle:{text}")


def test_its_version_is_its_own():
    assert attacks.create("unshuffle").version != attacks.create("invgrad").version
