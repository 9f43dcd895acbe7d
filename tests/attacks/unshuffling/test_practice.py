"""Practice: pairs that belong together, fresh keys in every pass, half of the images mirrored."""

from __future__ import annotations

import pytest
import torch

from glasshouse.attacks.unshuffling.practice import Practice
from glasshouse.defenses import create
from glasshouse.training import Samples


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def public(count: int = 10) -> Samples:
    return Samples(torch.rand(count, 1, 8, 8, generator=rng()), torch.arange(count))


class Spy:
    """Protects by marking each version with the number of its call."""

    def __init__(self) -> None:
        self.seen: list[Samples] = []

    def __call__(self, samples: Samples) -> torch.Tensor:
        self.seen.append(samples)
        return samples.images + len(self.seen)


def test_versions_show_the_batch_and_change_with_every_pass():
    spy = Spy()
    practice = Practice(public(), spy)
    calls = []
    for truth, versions in practice.batches(4, 5, rng(), versions=2):
        assert truth.shape == (4, 1, 8, 8)
        assert len(versions) == 2
        marks = [(version - truth).round() for version in versions]
        assert all(bool((mark == mark[0, 0, 0, 0]).all()) for mark in marks)
        calls.append([int(mark[0, 0, 0, 0]) for mark in marks])
    assert calls == [[1, 2], [1, 2], [3, 4], [3, 4], [5, 6]]  # two whole batches of four in a pass over ten
    assert all(torch.equal(one.targets, practice.public.targets) for one in spy.seen)


def test_no_image_comes_twice_in_a_pass_and_half_are_mirrored():
    samples = public(40)
    mirrored = 0
    found = []
    for truth, _ in Practice(samples, lambda one: one.images).batches(10, 4, rng()):
        for image in truth:
            plain = (samples.images == image).flatten(1).all(1)
            flipped = (samples.images.flip(-1) == image).flatten(1).all(1)
            assert int(plain.sum() + flipped.sum()) == 1
            found.append(int((plain | flipped).nonzero()[0, 0]))
            mirrored += int(flipped.sum())
    assert sorted(found) == list(range(40))
    assert 10 < mirrored < 30


@pytest.mark.parametrize(("asked", "given"), [(3, 3), (10, 10), (64, 10)])
def test_batches_are_no_larger_than_the_set(asked, given):
    batches = list(Practice(public(), lambda one: one.images).batches(asked, 4, rng()))
    assert [len(truth) for truth, _ in batches] == [given] * 4


def test_under_a_real_shuffle_each_pass_has_a_new_key():
    samples = Samples(torch.rand(2, 3, 16, 16, generator=rng()), torch.zeros(2, dtype=torch.long))
    keys = rng(7)
    practice = Practice(samples, lambda one: create("csvar").on_images(one.images, rng=keys))
    versions = [version[0] for _, (version,) in practice.batches(2, 6, rng())]
    assert len({version.numpy().tobytes() for version in versions}) == 6


def test_same_generator_same_batches():
    practice = Practice(public(), lambda one: one.images)
    first, second, third = (
        torch.stack([truth for truth, _ in practice.batches(4, 5, rng(seed))]) for seed in (1, 1, 2)
    )
    assert torch.equal(first, second)
    assert not torch.equal(first, third)
