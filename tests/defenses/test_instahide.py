"""InstaHide: mixtures behind masks of signs, a new one for every image and epoch."""

from __future__ import annotations

import pytest
import torch

from glasshouse.defenses import create
from glasshouse.errors import DataError, SettingError
from glasshouse.metrics import metrics
from glasshouse.training import Samples


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def some(count: int) -> Samples:
    return Samples(torch.rand(count, 3, 8, 8, generator=rng(9)), torch.arange(count) % 5, 5)


def test_a_mixture_whose_signs_were_flipped():
    """The mixture draws first, so mixup under the same seed is what lies behind the mask."""
    samples = some(6)
    hidden = create("instahide").on_samples(samples, rng=rng())
    mixture = create("mixup:k=4").on_samples(samples, rng=rng())
    assert torch.equal(hidden.targets, mixture.targets)
    centred, expected = 2 * hidden.images - 1, 2 * mixture.images - 1
    torch.testing.assert_close(centred.abs(), expected.abs())
    flipped = centred.sign() != expected.sign()
    assert float(flipped.float().mean()) == pytest.approx(0.5, abs=0.05)
    assert 0 <= float(hidden.images.min()) <= float(hidden.images.max()) <= 1


def test_every_image_channel_and_epoch_has_its_own_mask():
    samples = Samples(torch.full((2, 3, 16, 16), 0.9), torch.tensor([0, 1]), 2)
    source = rng()
    epochs = [create("instahide").on_samples(samples, rng=source).images > 0.5 for _ in range(2)]
    masks = torch.stack(epochs).flatten(0, 2).flatten(1)
    for first in range(len(masks)):
        for second in range(first):
            assert float((masks[first] == masks[second]).float().mean()) == pytest.approx(0.5, abs=0.15)


def test_a_single_image_has_no_partner_but_its_signs_flip():
    samples = some(1)
    found = create("instahide").on_samples(samples, rng=rng())
    torch.testing.assert_close((2 * found.images - 1).abs(), (2 * samples.images - 1).abs())
    assert not torch.equal(found.images, samples.images)
    assert found.targets.tolist() == [[1, 0, 0, 0, 0]]


def test_pictures_are_hidden_better_than_by_mixing_alone(photos):
    samples = Samples(photos, torch.arange(4), 10)
    ssim = metrics.create("ssim")
    hidden, mixture = (
        ssim.per_image(photos, create(text).on_samples(samples, rng=rng()).images)
        for text in ("instahide", "mixup:k=4")
    )
    assert float(hidden.max()) < 0.1 < float(mixture.min())


def test_same_seed_same_result():
    first, second, third = (create("instahide").on_samples(some(5), rng=rng(seed)) for seed in (1, 1, 2))
    assert torch.equal(first.images, second.images)
    assert not torch.equal(first.images, third.images)
    assert create("instahide").acts_on == "images and labels"


def test_bad_settings():
    with pytest.raises(SettingError, match=r"cap=0.25 is too small: 4 coefficients"):
        create("instahide:cap=0.25")
    with pytest.raises(SettingError, match="k=0 is out of range"):
        create("instahide:k=0")
    with pytest.raises(DataError, match="how many classes"):
        create("instahide").on_samples(Samples(torch.rand(2, 3, 8, 8), torch.tensor([0, 1])), rng=rng())
