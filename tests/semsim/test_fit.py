"""Training brings guesses into the order of their grades, repeats by seed, and refuses what teaches nothing."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from glasshouse.errors import DataError, ModelError, SettingError
from glasshouse.semsim import Embedding, Judged, Perceptual, Recipe, fit
from glasshouse.semsim.losses import LOSSES


def fresh() -> Perceptual:
    torch.manual_seed(3)
    return Perceptual(64)


@pytest.mark.parametrize("loss", ["triplet", "contrastive", "rank"])
def test_guesses_come_into_order(judged, loss):
    fitted = fit(fresh(), judged, Recipe(loss=loss, epochs=8, batch=8, lr=0.02))
    assert fitted.order.mean > 0.75
    assert fitted.order.images == 2  # of sixteen originals three are held out; one of these stops the training


def test_a_training_that_diverges_in_its_last_step_is_refused(judged, monkeypatch):
    def steep(distances, *rest):
        return (0 * distances).sqrt().sum()  # which is 0, but its slope is NaN

    monkeypatch.setitem(LOSSES, "rank", steep)
    with pytest.raises(ModelError, match=r"diverged in epoch 1: use a smaller --lr than 0\.001"):
        fit(fresh(), judged, Recipe(epochs=1, batch=16))


def test_without_epochs_it_is_calibrated_and_nothing_else(judged):
    network, before = fresh(), fresh().state_dict()
    fitted = fit(network, judged, Recipe(epochs=0))
    changed = {name for name, value in network.state_dict().items() if not torch.equal(value, before[name])}
    assert changed == {"calibration"}
    assert fitted.epochs == 0
    assert 0 <= fitted.order.mean <= 1


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


def test_votes_by_coin_flips_teach_nothing_that_holds_elsewhere(judged):
    """Decoys, which any network tells apart, and the originals that chose the epoch say nothing of that."""
    rng = torch.Generator().manual_seed(0)
    votes = (torch.rand(64, generator=rng) < 0.5).float()
    decoys = torch.full((16,), torch.nan)
    flipped = Judged(
        judged.originals,
        torch.cat([judged.guesses, torch.rand(judged.originals.shape, generator=rng)]),
        torch.cat([judged.owners, torch.arange(16)]),
        torch.cat([votes, torch.zeros(16)]),
        torch.cat([votes, decoys]),
    )
    fitted = fit(fresh(), flipped, Recipe(epochs=4, batch=8, held_out=0.5))
    assert fitted.order.low <= 0.5
    nobody = dataclasses.replace(flipped, votes=torch.cat([torch.ones(64), decoys]))
    assert fit(fresh(), nobody, Recipe(epochs=1, batch=8)).order is None


@pytest.mark.parametrize(
    "wrong", [{"loss": "mse"}, {"margin": 0}, {"epochs": -1}, {"lr": -1}, {"held_out": 0.9}, {"seed": 2**32}]
)
def test_settings_out_of_range(wrong):
    with pytest.raises(SettingError):
        Recipe(**wrong)


def test_probabilities_are_those_of_votes_and_not_of_what_was_taught(judged):
    """Votes on the two best guesses of each original only: the better is always recognised, the other never."""
    votes = torch.tensor([1.0, 0.0, torch.nan, torch.nan]).repeat(16)
    network = fresh()
    fitted = fit(network, dataclasses.replace(judged, votes=votes), Recipe(epochs=2, batch=8))
    assert len(fitted.judged) == len(fitted.predicted) == len(fitted.owners)
    assert sorted(set(fitted.judged.tolist())) == [0.0, 1.0]
    assert fitted.owners.unique(return_counts=True)[1].tolist() == [2] * len(fitted.owners.unique())
    clear, worse = fitted.predicted[fitted.judged == 1], fitted.predicted[fitted.judged == 0]
    assert float(clear.mean()) > 0.7
    assert float(worse.mean()) < 0.3  # it was taught 0.75
