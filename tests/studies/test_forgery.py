"""Scores of an adversary's samples, against slow loops and against samples whose answer is known."""

from __future__ import annotations

import pytest
import torch

from glasshouse.errors import SettingError
from glasshouse.functional.intervals import mean_interval
from glasshouse.metrics import create as metric
from glasshouse.studies import forgery
from glasshouse.studies.forgery import beside, evenly, nearest, taken_for
from glasshouse.training import Samples

NAMES = ("ant", "bee", "cat")


@pytest.fixture
def scene(rng):
    """Samples, images of three classes, and their labels."""
    return torch.rand(5, 1, 12, 12, generator=rng), torch.rand(9, 1, 12, 12, generator=rng), torch.arange(9) % 3


@pytest.mark.parametrize("name", ["mse", "ssim", "semsim"])
def test_nearest_is_what_a_slow_loop_finds(scene, name):
    samples, images, labels = scene
    measure = metric(name)
    best = max if measure.leaks_when == "high" else min
    slow = {
        label: [
            best(float(measure(images[at : at + 1], sample[None])) for at in range(9) if int(labels[at]) == label)
            for sample in samples
        ]
        for label in range(3)
    }
    found = nearest(measure, samples, images, labels, 1, NAMES)
    means = {label: sum(values) / 5 for label, values in slow.items()}
    rival = best((0, 2), key=means.get)
    assert found.target.mean == pytest.approx(mean_interval(slow[1]).mean, rel=1e-5)
    assert found.others.mean == pytest.approx((means[0] + means[2]) / 2, rel=1e-5)
    assert found.rival.mean == pytest.approx(means[rival], rel=1e-5)
    assert found.rival.low == pytest.approx(mean_interval(slow[rival]).low, rel=1e-4)
    assert found.rival_name == NAMES[rival]
    assert found.rank == 1 + sum(best(means[label], means[1]) != means[1] for label in (0, 2))


@pytest.mark.parametrize("name", ["mse", "ssim", "semsim"])
@pytest.mark.parametrize(("copied", "rank"), [(1, 1), (2, 2)])
def test_copies_of_a_class_are_nearest_to_it(scene, name, copied, rank):
    _, images, labels = scene
    found = nearest(metric(name), images[labels == copied], images, labels, 1, NAMES)
    assert found.rank == rank
    assert (found.target.mean == pytest.approx(float(metric(name)(images, images)[0]), abs=1e-5)) == (copied == 1)


def test_samples_are_scored_beside_images_of_their_own(rng):
    private, images = torch.rand(6, 1, 12, 12, generator=rng), torch.rand(18, 1, 12, 12, generator=rng)
    images[:6], of_target = private, torch.arange(18) < 6
    metrics = {"mse": metric("mse"), "ssim": metric("ssim")}
    copies = beside(metrics, private.flip(0), private, images, of_target)
    assert (copies.values["mse"].mean, copies.told.mean) == (0, 1)
    flat = private.mean((1, 2, 3), keepdim=True).expand_as(private)
    slow = sum(float(metric("ssim")(one[None], two[None])) for one, two in zip(private, flat, strict=True)) / 6
    assert copies.floor["ssim"].mean == pytest.approx(slow, rel=1e-5)
    others = beside(metrics, images[6:], private, images, of_target)
    assert others.told.mean == 0
    assert others.values["mse"].images == 6  # as many as there are private images


def test_noise_is_most_like_the_target_by_chance_only(rng):
    private, noise = torch.rand(120, 1, 12, 12, generator=rng), torch.rand(300, 1, 12, 12, generator=rng)
    found = beside({}, noise, private, torch.rand(100, 1, 12, 12, generator=rng), torch.arange(100) < 10)
    assert found.told.low < 0.1 < found.told.high


def test_every_class_has_as_many_images_to_be_near_to(rng):
    labels = torch.tensor([0] * 30 + [1] * 5 + [4] * 40)
    chosen = labels[evenly(labels, 20, rng)]
    assert chosen.bincount().tolist() == [5, 5, 0, 0, 5]
    assert labels[evenly(labels, 3, rng)].bincount().tolist() == [3, 3, 0, 0, 3]
    assert len(set(evenly(labels, 20, rng).tolist())) == 15


def test_the_share_is_of_samples_that_are_taken_for_the_target():
    def judge(images):
        return torch.tensor([1, 1, 0, 2])

    found = taken_for(judge, torch.zeros(4, 1, 8, 8), 1)
    assert found.mean == 0.5
    assert 0 < found.low < 0.5 < found.high < 1


def test_a_judge_needs_images_of_the_target_and_of_others(rng):
    for labels in ([0, 0, 2], [1, 1, 1]):
        strangers = Samples(torch.rand(3, 1, 8, 8), torch.tensor(labels), 3)
        with pytest.raises(SettingError, match="No judge can be taught"):
            forgery._taught(strangers, 1, rng, 0)
