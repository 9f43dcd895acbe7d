"""What every membership attack keeps: same seed same scores, refusals before work, the model left alone."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import nn

from glasshouse.errors import AttackError, CapabilityError, DataError, ModelError, SettingError, UnknownNameError
from glasshouse.membership import Bank, MembershipAttack, Public, ShadowAttack, create, membership
from glasshouse.registry import complete_spec
from glasshouse.training import Samples


def small(name: str) -> MembershipAttack:
    return create(name, **({"shadows": 8} if issubclass(membership.get(name), ShadowAttack) else {}))


@pytest.mark.parametrize("name", membership.names())
def test_members_of_an_overfitted_model_are_told_and_strangers_are_not(name, world):
    assert world.auc(small(name)) > 0.65  # six worlds gave 0.67 to 0.90
    assert world.auc(small(name), world.stranger) == pytest.approx(0.5, abs=0.15)


@pytest.mark.parametrize("name", membership.names())
def test_same_seed_same_scores(name, world):
    first, second = (world.scores(small(name)) for _ in range(2))
    assert torch.equal(first, second)
    assert first.dtype == torch.float64
    assert first.shape == (len(world.candidates),)


@pytest.mark.parametrize("name", membership.names())
def test_the_model_is_left_as_it_was(name, world):
    model = world.target
    before = {key: value.clone() for key, value in model.state_dict().items()}
    model.train()
    world.scores(small(name))
    assert model.training
    model.eval()
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())
    assert all(parameter.requires_grad for parameter in model.parameters())


@pytest.mark.parametrize("name", membership.names())
def test_settings_round_trip(name):
    attack = small(name)
    assert create(complete_spec(attack)) == attack


def test_the_score_of_an_image_does_not_depend_on_its_place(world):
    order = torch.randperm(len(world.labels))
    moved = create("loss")(world.target, world.candidates[order], world.labels[order], rng=torch.Generator())
    torch.testing.assert_close(moved, world.scores(create("loss"))[order])


def refused(world, attack="lira", **changed):
    given = {"model": world.target, "candidates": world.candidates, "labels": world.labels, "public": world.public}
    given |= changed
    small(attack)(given["model"], given["candidates"], given["labels"], public=given["public"], rng=torch.Generator())


def test_wrong_images_are_refused(world):
    with pytest.raises(DataError, match="scale it to"):
        refused(world, candidates=world.candidates * 255)
    with pytest.raises(DataError, match="one label for each of 100 images"):
        refused(world, labels=world.labels[:-1])
    with pytest.raises(DataError, match="but there are 10 classes"):
        refused(world, labels=world.labels + 5)
    with pytest.raises(ModelError, match=r"does not take images of shape \(1, 9, 9\)"):
        refused(world, candidates=torch.rand(4, 1, 9, 9), labels=world.labels[:4])
    wrong = dataclasses.replace(world.public, images=torch.rand(4, 1, 9, 9), labels=world.labels[:4])
    with pytest.raises(DataError, match="use one shape"):
        refused(world, public=wrong)
    with pytest.raises(DataError, match="labels"):
        refused(world, public=dataclasses.replace(world.public, labels=world.public.labels + 5))


def test_wrong_models_are_refused(world):
    for model, match in (
        (nn.Flatten(2), r"returns \(2, 1, 64\)"),
        (nn.Sequential(nn.Flatten(), nn.Linear(64, 1)), r"returns \(2, 1\)"),
        (nn.Sequential(nn.Flatten(), nn.Linear(64, 3)), "but there are 3 classes"),
        (nn.Sequential(world.target, nn.Threshold(1e9, float("nan"))), "NaN or infinite logits"),
    ):
        with pytest.raises((ModelError, DataError), match=match):
            refused(world, model=model)


def test_shadow_attacks_say_what_they_miss(world):
    with pytest.raises(DataError, match="no public images"):
        refused(world, public=None)
    with pytest.raises(CapabilityError, match="nobody said how to train them"):
        refused(world, public=Public(world.public.images, world.public.labels))
    with pytest.raises(CapabilityError, match="bank=Bank"):
        Public(world.public.images, world.public.labels).shadows(world.candidates, world.labels, 2)
    refused(world, "loss", public=None)


def test_settings_that_mean_nothing(world):
    for spec, match in (
        ("lira:shadows=7", "shadows=7 is odd"),
        ("lira:shadows=2", "shadows=2"),
        ("shokri:shadows=0", "shadows=0 is out of range"),
        ("shokri:top=-1", "top=-1 is out of range"),
        ("rmia:gamma=0", "gamma=0 is out of range"),
        ("rmia:a=2", "a=2 is out of range"),
        ("rmia:shadows=2", "too few to tune a"),
        ("lira:mode=sometimes", "mode=sometimes"),
        ("loss:signal=noise", "signal=noise"),
    ):
        with pytest.raises(SettingError, match=match):
            create(spec)
    with pytest.raises(UnknownNameError, match="Did you mean 'lira'"):
        create("lirra")


@pytest.mark.parametrize(
    ("scores", "match"), [(torch.zeros(3), "returned shape"), (torch.full((100,), torch.nan), "not finite")]
)
def test_what_an_attack_returns_is_checked(world, scores, match):
    class Wrong(MembershipAttack):
        name = "wrong"

        def run(self, model, candidates, labels, *, public, rng):
            return scores

    with pytest.raises(AttackError, match=match):
        world.scores(Wrong())


def test_shadows_are_trained_once_for_all_attacks(world):
    trained = []

    class Counting(Bank):
        def keep(self, name, model):
            trained.append(name)
            Bank.keep(self, name, model)

    few = Samples(world.candidates, world.labels)
    bank = Counting(world.public.bank.trainer, size=50, seed=3)
    public = Public(world.public.images, world.public.labels, bank)
    for spec in ("lira:shadows=4", "rmia:shadows=4", "shokri:shadows=6"):
        create(spec)(world.target, few.images, few.targets, public=public, rng=torch.Generator())
    assert len(trained) == len(set(trained)) == 6
