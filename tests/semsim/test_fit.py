"""Training brings guesses into the order of their grades, repeats by seed, and refuses what teaches nothing."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from glasshouse.errors import DataError, SettingError
from glasshouse.semsim import Embedding, Judged, Perceptual, Recipe, fit
from glasshouse.semsim.fit import in_order


def fresh() -> Perceptual:
    torch.manual_seed(3)
    return Perceptual(64)


@pytest.mark.parametrize("loss", ["triplet", "contrastive", "rank"])
def test_guesses_come_into_order(judged, loss):
    network = fresh()
    before = in_order(network.measure(judged.originals, judged.guesses, judged.owners)(torch.arange(64)).detach(),
                      judged.values, judged.owners)  # fmt: skip
    fitted = fit(network, judged, Recipe(loss=loss, epochs=8, batch=8, lr=0.02))
    assert fitted.order > 0.75
    assert fitted.order >= before - 0.1


def test_the_papers_way_trains_all_of_a_network(judged):
    network = Embedding("lenet:spread=0.1", 32)
    before = {name: value.clone() for name, value in network.named_parameters()}
    recipe = dataclasses.replace(Recipe.paper(), epochs=2)
    assert (recipe.loss, recipe.margin, recipe.lr, recipe.batch) == ("triplet", 1.0, 0.1, 128)
    fit(network, judged, recipe)
    assert all(not torch.equal(value, before[name]) for name, value in network.named_parameters())


def test_same_seed_same_network(judged):
    recipe = Recipe(epochs=2, batch=8)
    first, second, other = fresh(), fresh(), fresh()
    fit(first, judged, recipe)
    fit(second, judged, recipe)
    fit(other, judged, dataclasses.replace(recipe, seed=1))
    assert torch.equal(first.head.weight, second.head.weight)
    assert not torch.equal(first.head.weight, other.head.weight)


def test_near_pairs_are_likely_recognised(judged):
    network = fresh()
    fit(network, judged, Recipe(epochs=4, batch=8, lr=0.02))
    near, far = network.probabilities(torch.tensor([0.0, 2.0]))
    assert 0 <= float(far) < 0.5 < float(near) <= 1


def test_one_sided_votes_and_too_few_originals(judged):
    for value, which in ((0.9, "every"), (0.1, "no")):
        with pytest.raises(DataError, match=f"one-sided: {which} one"):
            fit(fresh(), dataclasses.replace(judged, values=torch.full((64,), value)), Recipe())
    with pytest.raises(DataError, match="too few"):
        fit(
            fresh(), Judged(judged.originals[:3], judged.guesses[:12], judged.owners[:12], judged.values[:12]), Recipe()
        )


def test_judgements_that_do_not_fit(judged):
    with pytest.raises(DataError, match="differ in number"):
        dataclasses.replace(judged, values=judged.values[:3])
    with pytest.raises(DataError, match="outside"):
        dataclasses.replace(judged, values=judged.values + 1)


@pytest.mark.parametrize("wrong", [{"loss": "mse"}, {"margin": 0}, {"epochs": 0}, {"lr": -1}, {"held_out": 0.9}])
def test_settings_out_of_range(wrong):
    with pytest.raises(SettingError):
        Recipe(**wrong)
