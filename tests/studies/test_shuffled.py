"""The parts of the attack on shuffled images, and their scores, on guesses whose score is known."""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pytest
import torch
from scipy.ndimage import gaussian_filter

from glasshouse.attacks.unshuffling import inverse, linker
from glasshouse.attacks.unshuffling.grid import groups
from glasshouse.attacks.unshuffling.members import Asked
from glasshouse.attacks.unshuffling.practice import Practice, as_a_client
from glasshouse.attacks.unshuffling.thumbnail import thumbnail
from glasshouse.data.crops import photo_crops
from glasshouse.defenses import create, csvar
from glasshouse.errors import StudyError
from glasshouse.functional.intervals import share_interval
from glasshouse.studies.shuffled import (
    Budget,
    Findings,
    Part,
    Protected,
    Truth,
    _blurred,
    _features,
    attack,
    batch_for,
    not_defined,
    score,
)
from glasshouse.training import Samples
from glasshouse.types import ImageSpec, Interval

BUDGET = Budget(inverse.Training(steps=2, batch=8, width=4), linker.Training(steps=2, batch=8, width=4))
KEY = bytes(range(32))
QUICK = ("psnr", "ssim")


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture(scope="module")
def crops() -> torch.Tensor:
    return photo_crops(ImageSpec(3, 16, 16, 1), 40, 0)


@pytest.fixture(scope="module")
def held(crops) -> Protected:
    """Eight protected images in two versions, sixteen in the gallery, the other crops to practise on."""
    ids = [str(place) for place in range(8)]
    keys = rng(3)
    return Protected(
        versions=tuple(csvar.shuffle(crops[:8], key=KEY, ids=ids, epoch=epoch) for epoch in (0, 1)),
        gallery=crops[:16],
        practice=Practice(
            Samples(crops[16:], torch.zeros(24, dtype=torch.long)),
            as_a_client(create("csvar"), keys),
        ),
    )


def truth_of(held: Protected) -> Truth:
    return Truth(held.gallery[:8], torch.arange(8))


def fewer(held: Protected) -> Protected:
    """The same with three images, for what is slow."""
    return dataclasses.replace(held, versions=tuple(version[:3] for version in held.versions))


def guessing(**pictures: torch.Tensor) -> Findings:
    return Findings({name.replace("_", " "): images for name, images in pictures.items()}, {}, {})


def by_name(parts: list[Part]) -> dict[str, dict[str, Interval]]:
    return {part.name: part.scores for part in parts}


# --- the attack ---


def test_all_parts_of_the_attack(held):
    shares: list[float] = []
    found = attack(held, BUDGET, progress=shares.append)
    assert list(found.pictures) == [
        "A thumbnail",
        "B channels un-mixed",
        "C jigsaw",
        "D learned inverse",
        "E versions combined",
    ]
    for images in found.pictures.values():
        assert images.shape == (8, 3, 16, 16)
        assert float(images.min()) >= 0
        assert float(images.max()) <= 1
    methods = ["region moments", "region moments, negatives allowed", "learned inverse", "learned linker"]
    assert list(found.identified) == methods
    assert list(found.linked) == methods
    for method in methods[:2]:  # exact invariants
        assert found.identified[method].tolist() == list(range(8))
        assert found.linked[method].tolist() == list(range(8))
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1)


@pytest.mark.parametrize(
    ("change", "missing"),
    [
        ({"blocks": False}, {"B channels un-mixed", "C jigsaw"}),
        ({"channel_wise": False}, {"B channels un-mixed"}),
        ({"versions": 1}, {"E versions combined"}),
        ({"channels": 1}, {"B channels un-mixed"}),
    ],
)
def test_parts_need_what_they_need(held, change, missing, monkeypatch):
    monkeypatch.setattr(inverse, "learn", lambda *args, **options: None)  # known from the test above, and slow
    monkeypatch.setattr(inverse, "invert", lambda network, images: images)
    monkeypatch.setattr(linker, "learn", lambda *args, **options: linker.Linker(3, 4))
    monkeypatch.setattr(linker, "embed", lambda encoder, images: images.flatten(1))
    few = fewer(held)
    if "versions" in change:
        known = dataclasses.replace(few, versions=few.versions[:1])
    elif "channels" in change:
        grey = tuple(version[:, :1] for version in few.versions)
        known = dataclasses.replace(few, versions=grey, gallery=few.gallery[:, :1])
    else:
        known = dataclasses.replace(few, **change)
    found = attack(known, BUDGET)
    every = {"A thumbnail", "B channels un-mixed", "C jigsaw", "D learned inverse", "E versions combined"}
    assert set(found.pictures) == every - missing
    assert bool(found.linked) == ("versions" not in change)


def test_a_fixed_block_size_and_channels_that_moved_together_are_made_use_of(held, monkeypatch):
    monkeypatch.setattr(inverse, "learn", lambda *args, **options: None)
    monkeypatch.setattr(inverse, "invert", lambda network, images: images)
    options = {"block_size": 2, "channel_wise": False}
    version = csvar.shuffle(held.gallery[:4], key=KEY, ids=list("abcd"), epoch=0, **options)
    blind = dataclasses.replace(held, versions=(version,))
    told = dataclasses.replace(blind, **options)
    truth = Truth(held.gallery[:4], torch.arange(4))
    guesses = [attack(known, BUDGET).pictures["C jigsaw"] for known in (told, blind)]
    parts = [by_name(score(truth, told, guessing(C_jigsaw=guess), measured=())) for guess in guesses]
    shares = [part["C jigsaw"]["blocks in place"].mean for part in parts]
    assert shares[0] > shares[1] + 0.2
    real, found = (
        {tuple(color) for color in images.permute(0, 2, 3, 1).reshape(-1, 3).tolist()}
        for images in (truth.images, guesses[0])
    )
    assert found == real  # no channel was moved by itself


def test_same_seed_same_findings(held):
    def run(seed: int) -> Findings:
        keys = rng(3)
        practice = Practice(held.practice.public, as_a_client(create("csvar"), keys))
        known = dataclasses.replace(fewer(held), practice=practice)
        one, two = (dataclasses.replace(part, seed=seed) for part in (BUDGET.inverse, BUDGET.linker))
        return attack(known, Budget(one, two, seed))

    first, second, other = run(0), run(0), run(1)
    for name, images in first.pictures.items():
        assert torch.equal(images, second.pictures[name]), name
    for name, places in first.identified.items():
        assert torch.equal(places, second.identified[name]), name
    for name in ("C jigsaw", "D learned inverse"):
        assert not torch.equal(first.pictures[name], other.pictures[name]), name


def test_blocks_are_cut_as_the_sender_of_8_bit_images_cut_them():
    """Of two values, many regions have variances that are equal in whole numbers and not in floats."""
    pixels = np.random.default_rng(0).integers(0, 2, (20, 1, 24, 24), dtype=np.uint8)
    floats = torch.from_numpy(pixels).float() / 255
    practice = Practice(Samples(floats, torch.zeros(20)), lambda samples, versions: [samples.images])
    exact = Protected((floats,), floats, practice, eight_bit=True)

    def cuts(places) -> list[tuple]:
        return [(group.tops.tolist(), group.lefts.tolist(), group.height, group.width) for group in places]

    expected = [cuts(groups(image)) for image in pixels]
    assert [cuts(exact.places(image)) for image in floats.numpy()] == expected
    assert [cuts(groups(image)) for image in floats.numpy()] != expected


def test_features_that_allow_negatives_do_not_see_them():
    images = torch.rand(2, 3, 20, 16, generator=rng())
    turned = images.clone()
    turned[:, 1] = 1 - turned[:, 1]
    before, after = _features(images, 8), _features(turned, 8)
    allowed = "region moments, negatives allowed"
    torch.testing.assert_close(before[allowed], after[allowed], rtol=0, atol=1e-5)
    assert float((before["region moments"] - after["region moments"]).abs().max()) > 0.01


def test_a_defense_with_its_own_regions_is_attacked_at_their_size(held):
    own = dataclasses.replace(held, own_region=8)
    assert (held.region, own.region) == (4, 8)
    scores = by_name(score(truth_of(own), own, guessing(), measured=("psnr",)))
    expected = by_name(score(truth_of(held), held, guessing(A=thumbnail(held.gallery[:8], 8)), measured=("psnr",)))
    assert scores["baseline: down-sampled"]["psnr"] == expected["A"]["psnr"]


def test_members_and_groups_are_counted_against_the_truth(held):
    """Three members in two groups, two others: every score right but one, one holder of another group."""
    asked = Asked(torch.tensor([3.0, 1.0, 2.0, 0.0, 1.5]), torch.tensor([1, 2, 2, 0, 0]))
    truth = dataclasses.replace(
        truth_of(held), inside=torch.tensor([0, 1, 2, -1, -1]), partners=torch.tensor([7, 7, 9])
    )
    parts = by_name(score(truth, held, Findings({}, {}, {}, {"a": asked}), measured=()))
    assert parts["H in the set: a"]["auc"].mean == pytest.approx(5 / 6)
    assert parts["H in the set: a"]["group found"] == share_interval(2, 3)
    with pytest.raises(StudyError, match="membership is not known"):
        score(truth_of(held), held, Findings({}, {}, {}, {"a": asked}), measured=())


def test_large_images_make_small_batches():
    sizes = {side: batch_for(torch.zeros(1, 1, side, side)) for side in (16, 32, 64, 224)}
    assert sizes == {16: 128, 32: 32, 64: 8, 224: 4}


# --- the scores ---


def test_a_perfect_guess_has_all_blocks_in_place(held):
    parts = by_name(score(truth_of(held), held, guessing(C_jigsaw=held.gallery[:8]), measured=("psnr",)))
    assert parts["C jigsaw"]["blocks in place"] == Interval(1.0, 1.0, 1.0, 8)
    assert parts["C jigsaw"]["psnr"].images == 8
    exact = dataclasses.replace(truth_of(held), images=(held.gallery[:8] * 255).round() / 255)
    parts = by_name(score(exact, held, guessing(C_jigsaw=exact.images), measured=("psnr",)))
    assert math.isinf(parts["C jigsaw"]["psnr"].mean)


def test_blocks_in_place_are_counted():
    truth = torch.rand(4, 3, 16, 16, generator=rng())
    guess, shares = truth.clone(), []
    for image in guess.numpy():
        places = groups(image)
        blocks = places[0].cut(image)[1]
        places[0].paste(image, 1, blocks[[1, 0, *range(2, len(blocks))]])  # in one channel is enough
        shares.append(1 - 2 / sum(len(group.tops) for group in places))
    known = Protected(
        (guess,), truth, Practice(Samples(truth, torch.zeros(4)), lambda samples, versions: [samples.images])
    )
    parts = by_name(score(Truth(truth, torch.arange(4)), known, guessing(C_jigsaw=guess), measured=()))
    assert parts["C jigsaw"]["blocks in place"].mean == pytest.approx(np.mean(shares))
    assert 0.9 < np.mean(shares) < 1


def test_shares_are_counted_against_the_truth(held):
    right = torch.arange(8)
    wrong = right.clone()
    wrong[3] = 15
    found = Findings({}, {"a": right, "b": wrong}, {"a": right.flip(0), "b": wrong})
    truth = Truth(held.gallery[:8], right, lambda images: images.flatten(1).mean(1) > 2)
    parts = by_name(score(truth, held, found, measured=()))
    assert parts["re-identified: a"] == {"share": share_interval(8, 8)}
    assert parts["re-identified: b"] == {"share": share_interval(7, 8)}
    assert parts["F linked: a"] == {"share": share_interval(0, 8)}
    assert parts["F linked: b"] == {"share": share_interval(7, 8)}
    assert parts["original"] == {"recognised": share_interval(0, 8)}


def test_the_judge_sees_the_originals_and_every_picture(held):
    seen = []

    def recognised(images: torch.Tensor) -> torch.Tensor:
        seen.append(images)
        return torch.arange(8) < 6

    truth = dataclasses.replace(truth_of(held), recognised=recognised)
    parts = score(truth, held, guessing(A_thumbnail=held.gallery[:8]), measured=())
    pictured = [part for part in parts if "recognised" in part.scores]
    assert len(pictured) == len(seen) == 6
    assert all(part.scores["recognised"] == share_interval(6, 8) for part in pictured)
    torch.testing.assert_close(seen[0], held.gallery[:8], rtol=0, atol=0.5 / 255 + 1e-6)


def test_what_was_sent_scores_worse_than_the_truth_and_baselines_have_no_detail(held):
    near = (held.gallery[:8] + 0.01).clamp(0, 1)
    parts = by_name(score(truth_of(held), held, guessing(D_learned_inverse=near), measured=QUICK))
    assert list(parts) == [
        "original",
        "protected image",
        "D learned inverse",
        "baseline: blur",
        "baseline: down-sampled",
        "baseline: pixels shuffled",
    ]
    assert parts["original"] == {}
    for name in QUICK:
        best = parts["D learned inverse"][name]
        assert best.low <= best.mean <= best.high
        for other in set(parts) - {"original", "D learned inverse"}:
            assert parts[other][name].mean < best.low, (name, other)
        assert parts["baseline: pixels shuffled"][name].mean < parts["baseline: blur"][name].mean


def test_baselines_are_made_from_the_truth(held):
    from glasshouse.studies.shuffled import _baselines

    truth = held.gallery[:8]
    made = dict(_baselines(truth, 4))
    assert torch.equal(made["baseline: down-sampled"], thumbnail(truth, 4))
    mixed = made["baseline: pixels shuffled"]
    assert not torch.equal(mixed, truth)
    for one, two in zip(truth, mixed, strict=True):
        colors, others = (sorted(map(tuple, image.flatten(1).T.tolist())) for image in (one, two))
        assert colors == others


@pytest.mark.parametrize(("size", "sigma"), [((32, 32), 4.0), ((28, 20), 2.0), ((8, 8), 2.0)])
def test_blur_against_scipy(size, sigma):
    images = torch.rand(2, 3, *size, generator=rng())
    radius = min(int(3 * sigma), min(size) - 1)
    expected = gaussian_filter(images.numpy(), sigma, axes=(2, 3), mode="mirror", radius=radius)
    np.testing.assert_allclose(_blurred(images, sigma).numpy(), expected, atol=1e-5)


def test_metrics_that_are_not_defined_are_left_out():
    images = torch.rand(3, 1, 8, 8, generator=rng())
    assert not_defined(images) == {"ssim": "SSIM is not defined under 11 px"}
    assert not_defined(torch.rand(3, 1, 11, 11)) == {}
    practice = Practice(Samples(images, torch.zeros(3)), lambda samples, versions: [samples.images])
    known = Protected((images,), images, practice)
    parts = by_name(score(Truth(images, torch.arange(3)), known, guessing(), measured=QUICK))
    assert set(parts["protected image"]) == {"psnr"}


def test_parts_as_json():
    part = Part("C jigsaw", {"psnr": Interval(math.inf, math.inf, math.inf, 3), "ssim": Interval(0.5, 0.4, 0.6, 3)})
    assert json.loads(json.dumps(part.to_json(), allow_nan=False)) == {
        "part": "C jigsaw",
        "scores": {
            "psnr": {"mean": None, "low": None, "high": None, "images": 3},
            "ssim": {"mean": 0.5, "low": 0.4, "high": 0.6, "images": 3},
        },
    }
