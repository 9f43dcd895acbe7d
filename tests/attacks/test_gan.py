"""The GAN attack: a participant's samples are taken for a class that it does not hold."""

from __future__ import annotations

import copy

import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch.nn import functional as F

from glasshouse import data, models
from glasshouse.attacks.gan import GANAttack, with_fake_class
from glasshouse.errors import ModelError, SettingError
from glasshouse.training import Samples
from glasshouse.types import ImageSpec

TARGET = 3
ROUNDS = 10


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def honest(model, samples: Samples, draw: torch.Generator):
    """One epoch of a participant that plays fair."""
    local = copy.deepcopy(model)
    optimizer = torch.optim.SGD(local.parameters(), lr=0.05)
    for chosen in torch.randperm(len(samples.images), generator=draw).split(32):
        optimizer.zero_grad()
        F.cross_entropy(local(samples.images[chosen]), samples.targets[chosen]).backward()
        optimizer.step()
    return local


@pytest.fixture(scope="module")
def federation():
    """The samples of an adversary after some rounds with a victim who holds the odd digits, and a judge."""
    digits = data.load("digits", split="train")
    images, labels = digits.batch(range(800))
    odd = labels % 2 == 1
    victim, own = Samples(images[odd], labels[odd]), Samples(images[~odd], labels[~odd])
    spec, draw = with_fake_class(digits.spec), rng()
    shared = models.create("mlp:width=64", spec)
    adversary = GANAttack(target=TARGET, steps=40).join(spec, rng=draw)
    for _ in range(ROUNDS):
        uploads = [adversary.take_part(shared, own, rng=draw), honest(shared, victim, draw)]
        states = [upload.state_dict() for upload in uploads]
        shared.load_state_dict({name: (states[0][name] + states[1][name]) / 2 for name in states[0]})
    judge = LogisticRegression(max_iter=300).fit(images.flatten(1).numpy(), labels.numpy())
    return adversary, shared, judge


def test_samples_are_taken_for_the_target_by_an_independent_judge(federation):
    adversary, _, judge = federation
    samples = adversary.samples(50, rng=rng(5))
    share = (judge.predict(samples.flatten(1).numpy()) == TARGET).mean()
    assert share > 0.5  # chance is 0.1


def test_the_upload_sees_through_the_fakes_better_than_the_global_model_did(federation):
    adversary, shared, _ = federation
    own = Samples(*data.load("digits", split="train").batch(range(20)))
    upload = adversary.take_part(shared, own, rng=rng(6))
    samples = adversary.samples(50, rng=rng(5))
    with torch.no_grad():
        before, after = (model(samples).softmax(1)[:, adversary.fake].mean() for model in (shared, upload))
    assert adversary.fake == 10
    assert float(after) > float(before)


def test_a_round_leaves_the_global_model_alone_and_depends_on_the_seed_only():
    digits = data.load("digits", split="train")
    images, labels = digits.batch(range(40))
    spec = with_fake_class(digits.spec)
    shared = models.create("mlp:width=8", spec)
    before = copy.deepcopy(shared.state_dict())
    uploads = []
    for seed in (0, 0, 1):
        draw = rng(seed)
        adversary = GANAttack(steps=2, fakes=4).join(spec, rng=draw)
        uploads.append(adversary.take_part(shared, Samples(images, labels), rng=draw).state_dict())
    assert all(torch.equal(before[name], value) for name, value in shared.state_dict().items())
    assert all(torch.equal(uploads[0][name], value) for name, value in uploads[1].items())
    assert not all(torch.equal(uploads[0][name], value) for name, value in uploads[2].items())


@pytest.mark.parametrize("image", [ImageSpec(1, 8, 8, 11), ImageSpec(3, 30, 17, 5)], ids=str)
def test_samples_have_the_shape_of_the_images(image):
    made = GANAttack().join(image, rng=rng()).samples(3, rng=rng())
    assert made.shape == (3, *image.shape)
    assert float(made.min()) >= 0
    assert float(made.max()) <= 1


def test_a_model_without_the_fake_class_is_refused():
    image = ImageSpec(1, 8, 8, 10)
    adversary = GANAttack().join(with_fake_class(image), rng=rng())
    with pytest.raises(ModelError, match=r"10 classes.*needs 11.*with_fake_class"):
        adversary.train_generator(models.create("mlp:width=8", image), rng=rng())


def test_senseless_settings_are_refused():
    with pytest.raises(SettingError, match="out of range"):
        GANAttack(fakes=0)
    with pytest.raises(SettingError, match="target=10 is out of range"):
        GANAttack(target=10).join(ImageSpec(1, 8, 8, 11), rng=rng())
