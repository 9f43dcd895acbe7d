"""A client's round: what it trains on, under which key and in which epoch, and what it lets out."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch
from torch.nn import functional as F

from glasshouse.errors import ModelError
from glasshouse.federated import clients
from glasshouse.federated.clients import Member, RoundClient, guarded, network, set_weights, train_round, weights_of
from glasshouse.federated.holdings import dealt

DIGITS = tuple(str(digit) for digit in range(10))


@pytest.fixture
def holding(small):
    return dealt(small, 0, DIGITS, None)


@pytest.fixture
def begun(small, holding):
    return weights_of(network(small, holding.spec))


def test_a_round_is_sgd_on_its_own_images(small, holding, begun):
    """The reference: gradient steps by hand, in the order of the client's seed."""
    member = Member.simulated(0, small.seed)
    trained = train_round(small, holding, member, 3, begun)
    model = network(small, holding.spec)
    samples = holding.in_epoch(0)
    order = torch.randperm(40, generator=torch.Generator().manual_seed(member.seed("order", 3)))
    for batch in order.split(20):
        loss = F.cross_entropy(model(samples.images[batch]), samples.targets[batch])
        gradients = torch.autograd.grad(loss, list(model.parameters()))
        with torch.no_grad():
            for parameter, gradient in zip(model.parameters(), gradients, strict=True):
                parameter -= 0.1 * gradient
    assert trained.examples == 40
    assert all(torch.allclose(trained.weights[name], value, atol=1e-6) for name, value in weights_of(model).items())


def test_a_client_trains_a_block_that_the_server_will_send_anew_so_that_its_change_is_seen(small, holding):
    plan = dataclasses.replace(small, model="imprinted:skip=true,bins=8")
    received = weights_of(network(plan, holding.spec))
    trained = train_round(plan, holding, Member.simulated(0, 0), 0, received)
    assert not torch.equal(trained.weights["network.0.measure.bias"], received["network.0.measure.bias"])


def test_the_learning_rate_stays_over_local_epochs(small, holding, begun, monkeypatch):
    seen = []
    monkeypatch.setattr(clients, "fit", lambda *given, decay_at, **options: seen.append(decay_at) or 0.0)
    train_round(dataclasses.replace(small, local_epochs=4), holding, Member.simulated(0, 0), 0, begun)
    assert seen == [()]


def test_epochs_count_over_rounds_under_one_key(small, holding):
    plan = dataclasses.replace(small, local_epochs=2, defense="csvar")
    member, samples = Member.simulated(1, 0), holding.in_epoch(0)
    first, again = (RoundClient(plan, holding, member, number) for number in (0, 0))
    second = RoundClient(plan, holding, member, 1)
    versions = [client.samples(samples).images for client in (first, first, second, second)]
    assert all(not torch.equal(a, b) for n, a in enumerate(versions) for b in versions[:n])
    assert torch.equal(again.samples(samples).images, versions[0])
    assert first.defense.key == second.defense.key
    assert second.epoch == 4
    other = RoundClient(plan, holding, Member.simulated(2, 0), 0)
    assert other.defense.key != first.defense.key
    for version in versions:  # a shuffle keeps every value
        assert torch.equal(version.flatten(1).sort().values, samples.images.flatten(1).sort().values)


def test_dp_sgd_promises_for_all_rounds(small, holding, begun):
    pytest.importorskip("opacus", reason="Opacus is not installed: pip install 'glasshouse[dp]'")
    plan = dataclasses.replace(
        small, defense="dp_sgd:epsilon=8", rounds=5, batch=40
    )  # all at once: accounted in no time
    client = RoundClient(plan, holding, Member.simulated(0, 0), 0)
    client.begin(plan.recipe.steps(40), 1.0, 40)
    assert client.defense.steps == 5
    assert client.defense.promise == guarded(plan, 40).promise
    assert "over 5 steps at sampling rate 1:" in client.defense.promise
    assert client.poisson


def test_behind_a_promise_the_loss_stays_at_home(small, holding, begun):
    pytest.importorskip("opacus", reason="Opacus is not installed: pip install 'glasshouse[dp]'")
    plan = dataclasses.replace(small, defense="dp_sgd:epsilon=8", rounds=1, batch=40)
    assert math.isnan(train_round(plan, holding, Member.simulated(0, 0), 0, begun).loss)
    assert math.isfinite(train_round(small, holding, Member.simulated(0, 0), 0, begun).loss)


def test_a_gradient_defense_acts_on_what_the_round_changed(small, holding, begun):
    member = Member.simulated(0, 0)
    plain = train_round(small, holding, member, 0, begun).weights
    pruned = train_round(dataclasses.replace(small, defense="prune:percent=90"), holding, member, 0, begun).weights
    changed = (plain["network.1.weight"] != begun["network.1.weight"]).float().mean()
    kept = (pruned["network.1.weight"] - begun["network.1.weight"]).abs() > 1e-7
    assert changed > 0.5
    assert 0.05 < kept.float().mean() < 0.15
    assert torch.allclose(pruned["network.1.weight"][kept], plain["network.1.weight"][kept], atol=1e-6)


def test_secrets_decide_and_stay_secret():
    member = Member(0, b"s" * 32)
    assert member.seed("key") == Member(0, b"s" * 32).seed("key")
    assert len({member.seed("key"), member.seed("order", 0), Member(0, b"t" * 32).seed("key")}) == 3


def test_a_real_client_draws_from_more_than_a_seed_of_torch_holds():
    real, again = (Member(0, b"s" * 32, fresh=True) for _ in range(2))
    assert torch.equal(*(torch.rand(4, generator=one.generator("key")) for one in (real, again)))
    words = real.generator("key").get_state()
    assert not torch.equal(words, torch.Generator().manual_seed(real.seed("key")).get_state())
    drawn = [torch.rand(4, generator=real.generator_once("defense", 0)) for _ in range(2)]
    assert not torch.equal(*drawn)


@pytest.mark.parametrize("fresh", [False, True])
def test_batches_and_dropout_of_a_real_client_follow_from_no_seed(fresh, small, holding, begun, monkeypatch):
    """Who could try all seeds would know which images were in a batch, which DP-SGD promises to hide."""
    drawn = []

    def watched(*given, rng, **settings):
        drawn.extend([rng.get_state(), torch.get_rng_state()])
        return 0.0

    monkeypatch.setattr(clients, "fit", watched)
    train_round(small, holding, Member(0, b"s" * 32, fresh=fresh), 0, begun)
    assert len(drawn) == 2
    for state in drawn:
        seed = torch.Generator().set_state(state).initial_seed()
        assert torch.equal(state, torch.Generator().manual_seed(seed).get_state()) is not fresh


def test_dropout_on_a_gpu_follows_from_the_seed_too(small, holding, begun, monkeypatch):
    """Dropout draws where the network lies."""
    seeds = []
    monkeypatch.setattr(torch.cuda, "manual_seed_all", seeds.append)
    for number in (0, 0, 1):
        train_round(small, holding, Member.simulated(0, 0), number, begun)
    first, again, next_round = filter(None, seeds)  # 0 is the plan's, of which networks are made
    assert first == again != next_round


@pytest.mark.parametrize("fresh", [False, True])
def test_noise_of_a_real_client_never_comes_twice(fresh, small, holding):
    """The difference of two answers under one noise would show what the noise hides."""
    plan = dataclasses.replace(small, defense="dp_sgd:epsilon=1")
    member = Member(0, b"s" * 32, fresh=fresh)
    received = weights_of(network(plan, holding.spec))
    first, second = (train_round(plan, holding, member, 0, received).weights for _ in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first) is not fresh
    changes = [torch.cat([(one[name] - received[name]).flatten() for name in received]) for one in (first, second)]
    alike = float(torch.corrcoef(torch.stack(changes))[0, 1])
    assert abs(alike) < 0.3 if fresh else alike == pytest.approx(1)
    assert "secret" not in repr(member)


def test_weights_that_do_not_fit_are_named(small, holding, begun):
    model = network(small, holding.spec)
    name = "network.1.weight"
    for wrong, match in (
        ({key: value for key, value in begun.items() if key != name}, f"they lack '{name}'"),
        ({**begun, "more": torch.zeros(1)}, "they have the extra 'more'"),
        ({**begun, name: torch.zeros(2, 2)}, r"shape \(2, 2\) instead of \(16, 64\)"),
        ({**begun, name: begun[name].double()}, r"float64 instead of torch\.float32"),
        ({**begun, name: begun[name] * float("nan")}, "NaN"),
    ):
        with pytest.raises(ModelError, match=match):
            set_weights(model, wrong)


def test_counters_stay_at_home(holding, small):
    model = network(dataclasses.replace(small, model="resnet20:width=4"), holding.spec)
    assert any("num_batches_tracked" in name for name in model.state_dict())
    assert not any("num_batches_tracked" in name for name in weights_of(model))
    assert any("running_var" in name for name in weights_of(model))
