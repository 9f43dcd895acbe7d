"""SemSim: 0 for equal images, rising with what hides an image, refusing other files, and the same in torchmetrics."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from glasshouse import data
from glasshouse.errors import DataError, SettingError, WeightsError
from glasshouse.metrics import create
from glasshouse.metrics.semsim import recognised
from glasshouse.semsim import Embedding, save
from glasshouse.semsim.torchmetric import SemSimMetric


@pytest.fixture(scope="module")
def scenes() -> Tensor:
    """Photographs that the shipped network did not learn from, (4, 3, 64, 64)."""
    return data.load("photos:size=64").batch((0, 1, 2, 4))[0]


def shuffled(images: Tensor, side: int, rng: torch.Generator) -> Tensor:
    """Blocks of so many pixels in random order."""
    blocks = F.unfold(images, side, stride=side)
    mixed = blocks[:, :, torch.randperm(blocks.shape[2], generator=rng)]
    return F.fold(mixed, images.shape[-2:], side, stride=side)


def noisy(images: Tensor, degree: int, rng: torch.Generator) -> Tensor:
    return (images + 0.06 * 2**degree * torch.randn(images.shape, generator=rng)).clamp(0, 1)


def blurry(images: Tensor, degree: int, rng: torch.Generator) -> Tensor:
    side = 2 * 2**degree + 1
    return F.avg_pool2d(images, side, 1, side // 2, count_include_pad=False)


def in_pieces(images: Tensor, degree: int, rng: torch.Generator) -> Tensor:
    return shuffled(images, images.shape[-1] // 2 ** (degree + 1), rng)


def test_equal_images_are_at_0_exactly_and_both_ways_are_one(scenes):
    metric = create("semsim")
    assert torch.equal(metric(scenes, scenes), torch.zeros(4))
    assert torch.equal(metric(scenes, scenes.flip(0)), metric(scenes.flip(0), scenes))


@pytest.mark.parametrize("hide", [noisy, blurry, in_pieces])
@pytest.mark.parametrize("shown", ["photos:size=64", "photos:size=32", "photos:size=160", "photos:size=64,channels=1"])
def test_the_more_is_hidden_the_farther(hide, shown, rng):
    metric, scenes = create("semsim"), data.load(shown).batch((0, 1, 2, 4))[0]
    levels = [float(metric(scenes, hide(scenes, degree, rng)).mean()) for degree in range(4)]
    assert levels == sorted(levels)
    assert levels[0] < 0.8 * levels[-1]


def test_another_image_is_farther_than_a_hidden_one(scenes, rng):
    metric = create("semsim")
    assert (metric(scenes, scenes.roll(1, 0)) > metric(scenes, noisy(scenes, 0, rng))).all()
    digits = data.load("digits:split=train")
    ones = digits.batch([place for place, label in enumerate(digits.labels) if label == 1][:9])[0]
    assert metric(ones[:-1], ones[1:]).mean() > metric(ones, noisy(ones, 0, rng)).mean()
    wide = data.load("photos:size=96").batch((0, 1, 2, 4))[0]
    here, there = wide[..., :64, :64], wide[..., -64:, -64:]  # two views of one scene
    assert (metric(here, there) > 1.2 * metric(here, blurry(here, 0, rng))).all()


@pytest.mark.parametrize("name", ["imagenette", "stanford_dogs", "caltech101"])
def test_another_photograph_of_a_class_is_far(name, real_data, rng):
    """Of faces that does not hold: those of one person are near, which the model card says."""
    images = data.load(f"{name}:size=32", root=real_data)
    places = [place for place in range(len(images)) if images.labels[place] in (0, 1, 2)]
    places.sort(key=lambda place: images.labels[place])
    kin = [(one, two) for one, two in itertools.pairwise(places) if images.labels[one] == images.labels[two]][:24]
    first, second = (images.batch([pair[side] for pair in kin])[0] for side in (0, 1))
    metric = create("semsim")
    assert metric(first, second).mean() > 1.5 * metric(first, noisy(first, 1, rng)).mean()
    assert recognised(first, second).mean() < 0.25


def test_people_see_through_a_little_noise_and_a_cast_but_see_nothing_in_noise_or_a_stranger(scenes, rng):
    seen = recognised(scenes, (scenes + 0.05 * torch.randn(scenes.shape, generator=rng)).clamp(0, 1))
    tinted = recognised(scenes, scenes * torch.tensor([1.0, 0.8, 0.6]).view(1, 3, 1, 1))
    nothing = recognised(scenes, torch.rand(scenes.shape, generator=rng))
    stranger = recognised(scenes, scenes.roll(1, 0))
    assert seen.mean() > 0.7
    assert tinted.mean() > 0.7
    assert nothing.max() < 0.15
    assert stranger.max() < 0.15


def test_noise_hides_less_than_mud(scenes, rng):
    small = F.avg_pool2d(scenes, 2)
    speckled = (small + 50 / 255 * torch.randn(small.shape, generator=rng)).clamp(0, 1)
    mud = F.interpolate(F.avg_pool2d(small, 16), size=32, mode="bilinear")
    metric = create("semsim")
    assert (metric(small, speckled) < metric(small, mud) - 0.1).all()


def test_forms_and_probability(scenes, rng):
    guess = noisy(scenes, 1, rng)
    length, cosine = create("semsim")(scenes, guess), create("semsim:form=cosine")(scenes, guess)
    torch.testing.assert_close(cosine, length.square() / 2)
    assert ((length >= 0) & (length <= 2)).all()
    chance = recognised(scenes, guess)
    assert ((chance > 0) & (chance < 1)).all()
    assert (recognised(scenes, scenes) >= chance).all()
    with pytest.raises(SettingError, match="form"):
        create("semsim:form=angle")


def test_a_batch_changes_nothing(scenes, rng):
    truth = scenes.repeat(10, 1, 1, 1)
    guess = torch.rand(truth.shape, generator=rng)
    metric = create("semsim")
    alone = torch.cat([metric(truth[i : i + 1], guess[i : i + 1]) for i in range(len(truth))])
    torch.testing.assert_close(metric(truth, guess), alone, rtol=1e-4, atol=1e-5)


def test_a_network_of_your_own(tmp_path, scenes):
    file = tmp_path / "own.safetensors"
    network = Embedding("lenet:spread=0.1", 32)
    save(network, file, judges="nobody")
    mine = create(f"semsim:file={file}")
    torch.testing.assert_close(
        mine(scenes, scenes.flip(0)), network.eval().distances(scenes, scenes.flip(0)).detach(), atol=1e-2, rtol=1e-2
    )
    assert mine.edition != create("semsim").edition
    file.with_name("cut.safetensors").write_bytes(file.read_bytes()[:100])
    with pytest.raises(WeightsError, match="damaged"):
        create(f"semsim:file={tmp_path / 'cut.safetensors'}")(scenes, scenes)
    with pytest.raises(WeightsError, match="There is no SemSim file"):
        create(f"semsim:file={tmp_path / 'none.safetensors'}")(scenes, scenes)


def test_torchmetrics_says_the_same(scenes, rng):
    guess = noisy(scenes, 1, rng)
    values = create("semsim")(scenes, guess)
    mean, each = SemSimMetric(), SemSimMetric(reduction="none")
    for metric in (mean, each):
        metric.update(scenes[:1], guess[:1])
        metric.update(scenes[1:], guess[1:])
    torch.testing.assert_close(mean.compute(), values.mean(), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(each.compute(), values, rtol=1e-4, atol=1e-5)
    mean.reset()
    assert int(mean.count) == 0
    with pytest.raises(DataError, match="differ in shape"):
        mean.update(scenes, guess[:1])
    with pytest.raises(SettingError, match="reduction"):
        SemSimMetric(reduction="sum")
