"""Practice: pairs that belong together, fresh keys in every pass, half of the images mirrored."""

from __future__ import annotations

import pytest
import torch

from glasshouse.attacks.unshuffling.practice import Practice, as_a_client
from glasshouse.defenses import create
from glasshouse.training import Samples


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def public(count: int = 10) -> Samples:
    return Samples(torch.rand(count, 1, 8, 8, generator=rng()), torch.arange(count))


class Spy:
    """Protects by marking each version with ten times the number of its call, and its epoch."""

    def __init__(self) -> None:
        self.seen: list[Samples] = []

    def __call__(self, samples: Samples, versions: int) -> list[torch.Tensor]:
        self.seen.append(samples)
        return [samples.images + 10 * len(self.seen) + epoch for epoch in range(versions)]


def raw(samples: Samples, versions: int) -> list[torch.Tensor]:
    return [samples.images] * versions


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
    assert calls == [[10, 11], [10, 11], [20, 21], [20, 21], [30, 31]]  # two whole batches of four in a pass over ten
    assert all(torch.equal(one.targets, practice.public.targets) for one in spy.seen)


def test_no_image_comes_twice_in_a_pass_and_half_are_mirrored():
    samples = public(40)
    mirrored = 0
    found = []
    for truth, _ in Practice(samples, raw).batches(10, 4, rng()):
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
    batches = list(Practice(public(), raw).batches(asked, 4, rng()))
    assert [len(truth) for truth, _ in batches] == [given] * 4


def test_under_a_real_shuffle_each_pass_has_a_new_key():
    samples = Samples(torch.rand(2, 3, 16, 16, generator=rng()), torch.zeros(2, dtype=torch.long))
    keys = rng(7)
    practice = Practice(samples, as_a_client(create("csvar"), keys))
    versions = [version[0] for _, (version,) in practice.batches(2, 6, rng())]
    assert len({version.numpy().tobytes() for version in versions}) == 6


def test_same_generator_same_batches():
    practice = Practice(public(), raw)
    first, second, third = (
        torch.stack([truth for truth, _ in practice.batches(4, 5, rng(seed))]) for seed in (1, 1, 2)
    )
    assert torch.equal(first, second)
    assert not torch.equal(first, third)


def test_versions_of_a_pass_are_epochs_under_one_key():
    """As a client makes them: what stays the same for all epochs, such as negatives, does so in practice too."""
    samples = Samples(torch.rand(8, 3, 16, 16, generator=rng()), torch.arange(8) % 2)
    defense = create("csvar_exchange:dither=0,mirror=false,negative=true")
    first, second = as_a_client(defense, rng(7))(samples, 2)
    keyed = defense.with_key(rng(7))
    for epoch, version in enumerate((first, second)):
        assert torch.equal(version, keyed.in_epoch(epoch).on_samples(samples, rng=rng()).images)
    assert not torch.equal(first, second)
