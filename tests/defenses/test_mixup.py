"""Mixup against a slow loop, its coefficients, and batches too small to mix."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from glasshouse import models
from glasshouse.defenses import DefendedClient, create
from glasshouse.defenses.mixup import _coefficients, _partners
from glasshouse.errors import DataError, SettingError
from glasshouse.studies.victim import share
from glasshouse.training import Recipe, Samples, fit
from glasshouse.types import ImageSpec


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def marked(count: int) -> Samples:
    """Random images whose last row holds one white pixel of their own: a mixture shows its coefficients there."""
    images = torch.rand(count, 3, 6, count, generator=rng(9))
    images[:, :, -1] = torch.eye(count)[:, None]
    return Samples(images, torch.arange(count) % 5, 5)


@pytest.mark.parametrize(("count", "k"), [(7, 2), (9, 4), (4, 4), (3, 4)])
def test_against_a_loop(count, k):
    samples = marked(count)
    found = create(f"mixup:k={k}").on_samples(samples, rng=rng())
    for index in range(count):
        weights = found.images[index, 0, -1]
        assert int((weights > 0).sum()) == min(k, count)
        assert weights[index] > 0
        assert float(weights.max()) <= 0.65
        image = sum(weights[other] * samples.images[other] for other in range(count))
        target = sum(weights[other] * F.one_hot(samples.targets[other], 5) for other in range(count))
        torch.testing.assert_close(found.images[index], image)
        torch.testing.assert_close(found.targets[index], target)


def test_a_single_image_stays_and_its_label_becomes_a_probability():
    samples = marked(1)
    found = create("mixup").on_samples(samples, rng=rng())
    assert torch.equal(found.images, samples.images)
    assert found.targets.tolist() == [[1, 0, 0, 0, 0]]


def test_mixtures_of_mixtures():
    found = create("mixup/mixup:k=4").on_samples(marked(6), rng=rng())
    assert found.targets.shape == (6, 5)
    torch.testing.assert_close(found.targets.sum(1), torch.ones(6))


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 40), st.integers(2, 8), st.integers(0, 1000))
def test_partners_are_different_others(count, k, seed):
    k = min(k, count)
    found = _partners(count, k, rng(seed))
    assert found[:, 0].tolist() == list(range(count))
    assert all(len(set(row)) == k for row in found.tolist())
    assert 0 <= int(found.min()) <= int(found.max()) < count


def test_every_other_is_a_partner_equally_often():
    drawn = torch.cat([_partners(4, 3, rng(seed)) for seed in range(2000)])
    for own in range(4):
        rows = drawn[drawn[:, 0] == own, 1:]
        shares = torch.bincount(rows[:, 0], minlength=4) / len(rows)
        assert shares[own] == 0
        assert torch.allclose(shares[torch.arange(4) != own], torch.full((3,), 1 / 3), atol=0.04)


def test_coefficients_keep_the_cap_and_follow_alpha():
    spread = {}
    for alpha in (0.5, 8):
        found = _coefficients(4000, 4, alpha, 0.65, rng())
        torch.testing.assert_close(found.sum(1), torch.ones(4000, dtype=torch.float64))
        assert 0 <= float(found.min()) < float(found.max()) <= 0.65
        assert torch.allclose(found.mean(0), torch.full((4,), 0.25, dtype=torch.float64), atol=0.01)
        spread[alpha] = float(found.std())
    assert spread[0.5] > 2 * spread[8]
    even = _coefficients(4000, 2, 1, 0.65, rng())[:, 0]  # uniform on what the cap leaves
    assert float(even.std()) == pytest.approx(0.3 / 12**0.5, rel=0.05)


def test_same_seed_same_result():
    defense = create("mixup:k=4")
    first, second, third = (defense.on_samples(marked(8), rng=rng(seed)) for seed in (1, 1, 2))
    assert torch.equal(first.images, second.images)
    assert torch.equal(first.targets, second.targets)
    assert not torch.equal(first.images, third.images)
    assert create(defense.spec) == defense
    assert defense.acts_on == "images and labels"


def test_clients_share_and_train_on_mixtures(photos):
    spec, labels = ImageSpec(3, 32, 32, 10), torch.arange(4)
    model = models.create("lenet", spec)
    seen = share(
        model, photos, labels, create("mixup"), image=spec, batchnorm="eval", give_labels=False, rng=rng()
    ).seen
    mixture = create("mixup").on_samples(Samples(photos, labels, 10), rng=rng())
    F.cross_entropy(model(mixture.images), mixture.targets).backward()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(seen.rounds[0].tensors[name], parameter.grad)
    client = DefendedClient(create("mixup"), rng())
    recipe = Recipe(epochs=1, batch=2, lr=0.01)
    mixed, plain = (fit(models.create("lenet", spec), photos, labels, recipe, client=one) for one in (client, None))
    assert mixed != plain


def test_bad_settings():
    with pytest.raises(SettingError, match="k=1 is out of range"):
        create("mixup:k=1")
    with pytest.raises(SettingError, match="alpha=0 is out of range"):
        create("mixup:alpha=0")
    with pytest.raises(SettingError, match=r"cap=0.5 is too small: 2 coefficients"):
        create("mixup:cap=0.5")
    with pytest.raises(SettingError, match=r"cap=0.3 is too small: 2 coefficients .* mix more images"):
        create("mixup:k=4,cap=0.3").on_samples(marked(2), rng=rng())
    with pytest.raises(SettingError, match=r"hardly ever draws 8 coefficients within cap=0.13"):
        create("mixup:k=8,cap=0.13,alpha=0.1").on_samples(marked(9), rng=rng())
    with pytest.raises(DataError, match=r"how many classes there are: give Samples\(images, targets, classes="):
        create("mixup").on_samples(Samples(torch.rand(2, 3, 8, 8), torch.tensor([0, 1])), rng=rng())
