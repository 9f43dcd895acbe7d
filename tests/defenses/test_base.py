"""What every defense keeps: same seed same result, shapes kept, where it acts is where it acts."""

from __future__ import annotations

import pytest
import torch

from glasshouse.defenses import create, defenses
from glasshouse.defenses.base import GradientDefense
from glasshouse.training import Samples
from glasshouse.types import Stage

GRADIENTS = {"a": torch.linspace(-1, 1, 60).view(3, 4, 5), "b": torch.linspace(-2, 3, 7)}


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("name", defenses.names())
def test_same_seed_same_result_and_shapes_stay(name):
    first, second = (create(name).on_gradients(GRADIENTS, rng=rng()) for _ in range(2))
    assert list(first) == list(GRADIENTS)
    for key, gradient in first.items():
        assert torch.equal(gradient, second[key])
        assert gradient.shape == GRADIENTS[key].shape
        assert gradient.dtype == GRADIENTS[key].dtype


@pytest.mark.parametrize("name", defenses.names())
def test_the_input_is_never_changed(name):
    before = {key: value.clone() for key, value in GRADIENTS.items()}
    images = torch.rand(2, 3, 8, 8)
    kept = images.clone()
    create(name).on_gradients(GRADIENTS, rng=rng())
    create(name).on_images(images, rng=rng())
    assert all(torch.equal(GRADIENTS[key], before[key]) for key in before)
    assert torch.equal(images, kept)


@pytest.mark.parametrize("name", [one for one in defenses.names() if issubclass(defenses.get(one), GradientDefense)])
def test_acts_where_it_says(name):
    for at, shared, trained in (("gradient", True, False), ("training", False, True), ("both", True, True)):
        defense = create(f"{name}:at={at}")
        changed = [
            not torch.equal(hook(GRADIENTS, rng=rng())["a"], GRADIENTS["a"])
            for hook in (defense.on_gradients, defense.on_training)
        ]
        assert changed == [shared, trained]
        assert at.replace("both", "training and shared gradient") in defense.acts_on
        assert (Stage.SHARING in defense.stages, Stage.TRAINING in defense.stages) == (shared, trained)
        assert defense.idle_in_training == (not trained)


def test_a_chain_is_idle_in_training_if_a_link_is_and_acts_wherever_one_does():
    chain = create("csvar/gaussian:at=training/prune:at=gradient")
    assert chain.stages == {Stage.IMAGES, Stage.TRAINING, Stage.SHARING}
    assert chain.idle_in_training
    assert not create("csvar/gaussian:at=both").idle_in_training
    assert not create("none").stages
    assert create("mixup").stages == create("instahide").stages == {Stage.IMAGES, Stage.LABELS}
    assert create("dp_sgd").stages == create("soteria").stages == {Stage.COMPUTING}


def test_regions_and_groups_of_a_chain_are_those_of_its_links():
    samples = Samples(torch.rand(6, 1, 16, 16), torch.zeros(6, dtype=torch.long))
    assert create("csvar/visual_mixer:region=5").region_side(16, 16) == 5
    assert create("csvar/prune").region_side(16, 16) is None
    assert create("csvar").partners(samples).tolist() == list(range(6))
    exchange = create("csvar_exchange:k=6/prune").with_key(rng())
    assert exchange.partners(samples).tolist() == [0] * 6


def test_a_chain_acts_in_order():
    chain = create("gaussian:sigma=1/prune:percent=100")
    assert all(not value.any() for value in chain.on_gradients(GRADIENTS, rng=rng()).values())
    other = create("prune:percent=100/gaussian:sigma=1")
    assert all(value.any() for value in other.on_gradients(GRADIENTS, rng=rng()).values())
    trained = create("gaussian:sigma=1,at=training/prune:percent=100,at=training").on_training(GRADIENTS, rng=rng())
    assert all(not value.any() for value in trained.values())
    images = torch.rand(1, 3, 4, 4)
    assert torch.equal(chain.on_images(images, rng=rng()), images)
    assert chain.acts_on == "shared gradient, then shared gradient"
    assert create(chain.complete_spec) == chain
