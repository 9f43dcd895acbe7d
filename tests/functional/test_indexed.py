"""Members of batches are told apart by linear equations, exactly where there are enough of them."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from glasshouse.functional.indexed import layer_inputs, loss_gradients, membership_shares

COUNT, FEATURES, UNITS = 6, 9, 4


@pytest.fixture
def layer() -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(FEATURES, UNITS)


def batches(rounds: int) -> list[list[int]]:
    rng = torch.Generator().manual_seed(1)
    return [torch.randperm(COUNT, generator=rng)[:3].tolist() for _ in range(rounds)]


def gradients(layer: nn.Linear, inputs: torch.Tensor, labels: torch.Tensor, chosen: list[int]):
    loss = F.cross_entropy(layer(inputs[chosen]), labels[chosen])
    return torch.autograd.grad(loss, (layer.bias, layer.weight))


def test_shares_are_those_of_a_mean():
    expected = torch.tensor([[0.5, 0, 0.5, 0], [0, 1, 0, 0]], dtype=torch.float64)
    assert torch.equal(membership_shares([[0, 2], [1]], 4), expected)


def test_loss_gradients_and_inputs_equal_those_of_single_samples(layer):
    inputs, labels = torch.randn(COUNT, FEATURES), torch.arange(COUNT) % UNITS
    drawn = batches(12)
    biases, weights = zip(*[gradients(layer, inputs, labels, batch) for batch in drawn], strict=True)
    shares = membership_shares(drawn, COUNT)
    pulls = loss_gradients(shares, torch.stack(biases))
    single = torch.stack([gradients(layer, inputs, labels, [place])[0] for place in range(COUNT)])
    assert torch.allclose(pulls.float(), single, atol=1e-5)
    # six samples behind four units: no single batch would do
    assert torch.allclose(layer_inputs(shares, pulls, weights).float(), inputs, atol=1e-3)


def test_too_few_batches_leave_members_mixed(layer):
    inputs, labels = torch.randn(COUNT, FEATURES), torch.arange(COUNT) % UNITS
    drawn = batches(3)
    biases = torch.stack([gradients(layer, inputs, labels, batch)[0] for batch in drawn])
    single = torch.stack([gradients(layer, inputs, labels, [place])[0] for place in range(COUNT)])
    assert not torch.allclose(loss_gradients(membership_shares(drawn, COUNT), biases).float(), single, atol=1e-2)
