"""Learned: practice on public images turns gradients into pictures, behind a defense that it knows."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from glasshouse import data, defenses, models
from glasshouse.attacks import attacks
from glasshouse.attacks.learned import practice_labels
from glasshouse.errors import CapabilityError, SettingError
from glasshouse.metrics import create as create_metric
from glasshouse.studies.scoring import identified, mean_colors
from glasshouse.studies.victim import share
from glasshouse.types import SharedUpdate

SHORT = "learned:images=160,hashed=64,steps=15,width=8"
COUNT = 8


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture(scope="module")
def world():
    """A LeNet, test digits with labels, and public digits of others."""
    digits = data.load("digits")
    public = data.load("digits", split="train").batch(range(160))[0]
    return models.create("lenet:width=6", digits.spec), *digits.batch(range(COUNT)), public


def seen(world, defense: str = "none"):
    model, images, labels, public = world
    return [
        share(
            model, image[None], label[None], defenses.create(defense), image=data.load("digits").spec,
            batchnorm="eval", give_labels=False, rng=rng(number), public=public,
        ).seen
        for number, (image, label) in enumerate(zip(images, labels, strict=True))
    ]  # fmt: skip


def found(world, defense: str, *, told: str | None = None) -> torch.Tensor:
    """Reconstructions behind a defense, by an attacker who is told of this or another one."""
    each = [one if told is None else dataclasses.replace(one, defense=told) for one in seen(world, defense)]
    results = attacks.create(SHORT).attack_all(world[0], each, rngs=[rng(n) for n in range(COUNT)])
    return torch.cat([one.images for one in results])


def psnr(world, guess: torch.Tensor) -> float:
    return float(create_metric("psnr").per_image(world[1], guess).mean())


def test_it_beats_the_floor(world):
    guess = found(world, "none")
    assert psnr(world, guess) > psnr(world, mean_colors(world[1])) + 3
    others = data.load("digits").batch(range(100, 200))[0]
    assert float(identified(world[1], guess, others).float().mean()) > 0.5


@pytest.mark.parametrize("defense", ["prune:percent=90", "gaussian:sigma=0.05"])
def test_a_defense_hurts_less_where_it_is_known(world, defense):
    known, unknown = psnr(world, found(world, defense)), psnr(world, found(world, defense, told="none"))
    assert unknown < known < psnr(world, found(world, "none"))


def test_the_attacked_images_play_no_part_in_practice(world):
    one = seen(world)[0]
    first = attacks.create(SHORT)(world[0], one, rng=rng())
    other = dataclasses.replace(one, public=one.public.flip(-1))
    assert not torch.equal(first.images, attacks.create(SHORT)(world[0], other, rng=rng()).images)
    assert first.objective > 0  # the error on public images, known to the attacker
    assert first.labels is None


def test_half_of_the_labels_are_the_models_own(world):
    model, _, _, public = world
    own = model(public).argmax(1)
    labels = practice_labels(model, public, 10, rng())
    assert 0.45 < float((labels == own).float().mean()) < 0.7
    assert len(labels.unique()) == 10


def test_without_public_images_it_is_refused_with_what_to_do(world):
    one = dataclasses.replace(seen(world)[0], public=None)
    with pytest.raises(CapabilityError, match=r"needs public images.*--public SPEC"):
        attacks.create("learned").refuse(world[0], one)
    with pytest.raises(CapabilityError, match="at least 4"):
        attacks.create(SHORT)(world[0], dataclasses.replace(one, public=world[3][:3]), rng=rng())


def test_senseless_settings_are_refused():
    with pytest.raises(SettingError, match="out of range"):
        attacks.create("learned:images=3")


def test_all_observations_are_read(world):
    """Noise that two messages have with opposite signs is gone from their mean."""
    one = seen(world)[0]
    tensors = one.rounds[0].tensors
    noise = {name: torch.randn(value.shape, generator=rng(5)) for name, value in tensors.items()}
    both = [SharedUpdate({name: value + sign * noise[name] for name, value in tensors.items()}) for sign in (1, -1)]
    each = [dataclasses.replace(one, rounds=rounds) for rounds in (one.rounds, tuple(both[:1]), tuple(both))]
    results = attacks.create(SHORT).attack_all(world[0], each, rngs=[rng(n) for n in range(3)])
    clean, first, averaged = (result.images for result in results)
    assert torch.allclose(averaged, clean, atol=1e-2)
    assert not torch.allclose(first, clean, atol=1e-2)
