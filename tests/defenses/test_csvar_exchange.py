"""CSVAR with exchange: values are traded and none is lost, groups and negatives stay, and linking fails."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from glasshouse.defenses import DefendedClient, create, csvar
from glasshouse.defenses.csvar_exchange import CSVARExchange, groups
from glasshouse.errors import SettingError
from glasshouse.registry import complete_spec, to_spec
from glasshouse.training import Samples

KEY = bytes(range(32))
BARE = {"blend": 1, "mirror": False, "negative": False, "dither": 0.0}


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def samples(count: int = 12, classes: int = 2, shape: tuple[int, int, int] = (3, 16, 16), seed: int = 0) -> Samples:
    return Samples(torch.rand(count, *shape, generator=rng(seed)), torch.arange(count) % classes, classes)


def protect(given: Samples, epoch: int = 0, **options) -> torch.Tensor:
    defense = CSVARExchange(**{"key": KEY, "epoch": epoch, **options})
    return defense.on_samples(given, rng=rng()).images


def members(given: Samples, k: int) -> list[list[int]]:
    numbers = CSVARExchange(key=KEY, k=k).partners(given)
    return [(numbers == number).nonzero()[:, 0].tolist() for number in numbers.unique()]


# --- groups ---


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=40), st.integers(1, 9), st.randoms())
def test_groups_are_of_one_class_large_enough_and_whole(labels, k, random):
    ids = [bytes([number]) for number in range(len(labels))]
    random.shuffle(ids)
    found = [group.tolist() for group in groups(labels, ids, k)]
    assert sorted(itertools.chain(*found)) == list(range(len(labels)))
    for group in found:
        assert len({labels[place] for place in group}) == 1
        whole_class = len(group) == labels.count(labels[group[0]])
        assert len(group) in range(k, 2 * k) or (whole_class and len(group) < k)


def test_groups_follow_the_images_and_not_their_order():
    labels = [0] * 9 + [1] * 5
    ids = [hashlib.sha256(bytes([number])).digest() for number in range(14)]
    plain = {frozenset(group.tolist()) for group in groups(labels, ids, 4)}
    assert {len(group) for group in plain} == {4, 5}
    order = np.random.default_rng(0).permutation(14)
    other = groups([labels[place] for place in order], [ids[place] for place in order], 4)
    assert {frozenset(order[group].tolist()) for group in other} == plain


def test_images_trade_with_their_own_group_only_and_in_every_epoch():
    """Each image has values of its own, so that every value tells where it comes from."""
    given = samples(11, classes=2)
    given = dataclasses.replace(given, images=(given.images / 2 + 0.25 + torch.arange(11).view(-1, 1, 1, 1)) / 11)
    expected = members(given, 3)
    for epoch in range(3):
        made = (protect(given, epoch, k=3, **BARE) * 11).floor()
        for group in expected:
            for place in group:
                assert set(made[place].unique().int().tolist()) <= set(group)
            assert set(made[group].unique().int().tolist()) == set(group)
        assert any(len(image.unique()) > 1 for image in made)


def test_groups_cannot_be_told_without_the_key():
    given = samples(24, classes=2)
    first, other = (CSVARExchange(key=key, k=4).partners(given) for key in (KEY, KEY[::-1]))
    together, apart = (one[:, None] == one[None] for one in (first, other))
    assert not torch.equal(together, apart)
    order = torch.randperm(24, generator=rng())
    moved = Samples(given.images[order], given.targets[order])
    assert torch.equal(CSVARExchange(key=KEY, k=4).partners(moved), first[order])


# --- what is averaged ---


@pytest.mark.parametrize(("k", "blend", "sizes"), [(4, 2, {2}), (5, 2, {2, 3}), (6, 3, {3}), (4, 9, {4}), (3, 1, {1})])
def test_every_region_is_the_mean_of_some_members_the_same_in_every_epoch(k, blend, sizes):
    """Image n of the one group is 2^n everywhere, so that a sum of some tells which they are."""
    given = Samples(torch.stack([torch.full((2, 16, 16), 2.0**n / 64) for n in range(k)]), torch.zeros(k).long())
    seen = []
    for epoch in (0, 1):
        made = protect(given, epoch, **{**BARE, "k": k, "blend": blend})
        cells = (made.unfold(2, 4, 4).unfold(3, 4, 4) * 64).transpose(0, 1).flatten(4).flatten(2, 3)
        for cell in cells.permute(0, 2, 1, 3).flatten(0, 1):  # (members, values) of a region and channel
            means = cell[:, 0].tolist()
            assert bool((cell == cell[:, :1]).all())
            sums = {mean: round(mean * means.count(mean)) for mean in means}
            assert all(bin(sums[mean]).count("1") == means.count(mean) for mean in means)
            assert {means.count(mean) for mean in means} <= sizes
            seen.append((epoch, tuple(sorted(means))))
    first, second = ([means for when, means in seen if when == epoch] for epoch in (0, 1))
    assert first == second
    assert len(set(first)) > 1 or blend in (1, 9)


# --- what is kept ---


@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 9),
    st.integers(1, 3),
    st.sampled_from([1, 3]),
    st.integers(8, 40),
    st.integers(8, 40),
    st.integers(1, 5),
    st.integers(0, 99),
)
def test_values_of_a_group_region_and_channel_are_kept_once(count, classes, channels, height, width, k, seed):
    given = samples(count, classes, (channels, height, width), seed)
    made = protect(given, seed, k=k, **BARE)
    size = csvar.region_size(height, width)
    for group in members(given, k):
        for top in range(0, height, size):
            for left in range(0, width, size):
                before, after = (
                    one[group, :, top : top + size, left : left + size].transpose(0, 1).flatten(1).sort().values
                    for one in (given.images, made)
                )
                assert torch.equal(before, after)


def test_alone_and_with_all_else_off_it_is_csvar():
    given = samples()
    for epoch in (0, 3):
        expected = csvar.CSVAR(key=KEY, epoch=epoch).on_images(given.images, rng=rng())
        assert torch.equal(protect(given, epoch, k=1, **BARE), expected)
        assert not torch.equal(protect(given, epoch, k=2, **BARE), expected)


@pytest.mark.parametrize("size", [(28, 28), (30, 23), (32, 40)])
def test_mirrored_blocks_keep_their_values(size):
    given = samples(3, 1, (2, *size))
    plain, mirrored = (protect(given, k=2, **{**BARE, "mirror": mirror}) for mirror in (False, True))
    side = csvar.region_size(*size) // 4
    kinds = set()
    for top in range(0, size[0], side):
        for left in range(0, size[1], side):
            one, two = (x[..., top : top + side, left : left + side] for x in (plain, mirrored))
            if one.shape[-2:] != (side, side):
                assert torch.equal(one, two)
                continue
            for a, b in zip(one.flatten(0, 1), two.flatten(0, 1), strict=True):
                flips = {(): a, (0,): a.flip(0), (1,): a.flip(1), (0, 1): a.flip(0, 1)}
                kinds |= {axes for axes, flipped in flips.items() if torch.equal(flipped, b)}
                assert any(torch.equal(flipped, b) for flipped in flips.values())
    assert kinds == {(), (0,), (1,), (0, 1)}


def negatives(given: Samples, epoch: int, key: bytes = KEY) -> torch.Tensor:
    """Which channels (N, C) are negatives."""
    plain, negated = (protect(given, epoch, key=key, **{**BARE, "negative": on}) for on in (False, True))
    same, turned = ((negated - one).abs().amax((2, 3)) < 1e-6 for one in (plain, 1 - plain))
    assert bool((same ^ turned).all())
    return turned


def test_half_of_the_channels_are_negatives_and_the_same_in_every_epoch():
    given = samples(60, 3, (3, 8, 8))
    first = negatives(given, 0)
    assert torch.equal(first, negatives(given, 7))
    assert 0.35 < float(first.float().mean()) < 0.65
    assert len(first.unique(dim=0)) == 8
    assert not torch.equal(first, negatives(given, 0, KEY[::-1]))
    order = torch.randperm(60, generator=rng())
    moved = Samples(given.images[order], given.targets[order])
    assert torch.equal(negatives(moved, 0), first[order])


def test_dither_is_noise_of_its_width_and_new_in_every_epoch():
    given = Samples(torch.full((4, 3, 16, 16), 0.5), torch.zeros(4, dtype=torch.long))
    first, second = (protect(given, epoch, dither=8.0, negative=False) - 0.5 for epoch in (0, 1))
    assert float(first.abs().max()) <= 8 / 255 + 1e-6
    assert float(first.std()) == pytest.approx(8 / 255 / 3**0.5, rel=0.05)
    assert abs(float(torch.corrcoef(torch.stack([first.flatten(), second.flatten()]))[0, 1])) < 0.1


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 6), st.integers(8, 33), st.floats(0, 300), st.integers(0, 99))
def test_images_stay_images(count, side, dither, seed):
    given = samples(count, 2, (1, side, side), seed)
    given = dataclasses.replace(given, images=given.images.round())
    made = protect(given, seed, dither=dither)
    assert made.shape == given.images.shape
    assert made.dtype == given.images.dtype
    assert float(made.min()) >= 0
    assert float(made.max()) <= 1


def test_same_key_and_epoch_same_result_else_another():
    given = samples()
    kept = given.images.clone()
    first = protect(given)
    assert torch.equal(given.images, kept)
    assert torch.equal(first, protect(given))
    assert not torch.equal(first, protect(given, 1))
    assert not torch.equal(first, protect(given, key=KEY[::-1]))
    drawn = [create("csvar_exchange").on_images(given.images, rng=rng(seed)) for seed in (0, 0, 1)]
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])


# --- in use ---


def test_soft_targets_one_image_and_unknown_classes():
    given = samples()
    soft = dataclasses.replace(given, targets=torch.nn.functional.one_hot(given.targets, 2).float() * 0.9 + 0.05)
    made = CSVARExchange(key=KEY).on_samples(soft, rng=rng())
    assert torch.equal(made.images, protect(given))
    assert made.targets is soft.targets
    assert made.classes == 2
    alone = Samples(given.images[:1], given.targets[:1])
    assert torch.equal(protect(alone, **BARE), csvar.CSVAR(key=KEY).on_images(alone.images, rng=rng()))
    one_class = dataclasses.replace(given, targets=torch.zeros(12, dtype=torch.long))
    assert torch.equal(CSVARExchange(key=KEY).on_images(given.images, rng=rng()), protect(one_class))


def test_a_client_keeps_its_key_over_the_epochs():
    given = samples()
    client = DefendedClient(create("csvar_exchange:dither=0,mirror=false"), rng())
    first, second = (client.samples(given).images for _ in range(2))
    assert client.defense.key is not None
    assert not torch.equal(first, second)
    again = client.defense.in_epoch(1).on_samples(given, rng=rng(9)).images
    assert torch.equal(again, second)


def test_versions_can_hardly_be_linked_or_identified_by_what_csvar_keeps():
    from glasshouse.attacks.unshuffling.thumbnail import nearest
    from glasshouse.data.crops import photo_crops
    from glasshouse.studies.shuffled import _features
    from glasshouse.types import ImageSpec

    given = Samples(photo_crops(ImageSpec(3, 16, 16, 1), 120, 0), torch.arange(120) % 6)
    own = torch.arange(120)
    for spec, fits in (("csvar", lambda share: share == 1), ("csvar_exchange", lambda share: share < 0.6)):
        defense = create(spec).with_key(rng())
        first, second = (defense.in_epoch(epoch).on_samples(given, rng=rng()).images for epoch in (0, 1))
        raw, one, two = (_features(images, 4) for images in (given.images, first, second))
        for name in raw:
            assert fits(float((nearest(two[name], one[name]) == own).float().mean())), (spec, name)
            assert fits(float((nearest(one[name], raw[name]) == own).float().mean())), (spec, name)


def test_settings_and_the_key():
    defense = create("csvar_exchange:k=8,dither=2,mirror=false,negative=false")
    assert (defense.k, defense.dither, defense.mirror, defense.negative) == (8, 2.0, False, False)
    assert create("csvar_exchange") == CSVARExchange(k=6, blend=3, negative=False)
    assert create(defense.complete_spec) == defense
    assert defense.acts_on == "images"
    assert not defense.moves_blocks
    secret = CSVARExchange(key=b"very secret bytes!")
    assert "secret" not in repr(secret) + to_spec(secret) + complete_spec(secret)
    assert secret.with_key(rng()) is secret


@pytest.mark.parametrize("text", ["k=0", "blend=0", "dither=-1", "dither=nan", "epoch=-1"])
def test_bad_settings(text):
    with pytest.raises(SettingError, match=f"{text} is out of range"):
        create(f"csvar_exchange:{text}")


@pytest.mark.parametrize("key", [b"short", b"", b"x" * 65, "a text that is long enough"])
def test_bad_keys(key):
    with pytest.raises(SettingError, match="16 to 64 secret bytes"):
        CSVARExchange(key=key)
