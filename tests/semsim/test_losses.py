"""Losses against slow loops, and what they want."""

from __future__ import annotations

import math

import pytest
import torch

from glasshouse.semsim.losses import LOSSES, contrastive, rank, surely_ordered, triplet


@pytest.fixture
def case(rng):
    distances = torch.rand(12, generator=rng)
    return distances, 0.02 + 0.96 * torch.rand(12, generator=rng), torch.arange(12) // 4


def test_triplet_is_the_papers_sum(case):
    distances, values, owners = case
    terms = [
        max(float(distances[i] - distances[j]) + 1, 0)
        for i in range(12)
        for j in range(12)
        if owners[i] == owners[j] and values[i] > 0.5 >= values[j]
    ]
    assert float(triplet(*case, 1.0)) == pytest.approx(sum(terms) / len(terms), rel=1e-5)


def test_contrastive_against_a_loop(case):
    distances, values, _ = case
    terms = [float(v * d**2 + (1 - v) * max(0.7 - float(d), 0) ** 2) for d, v in zip(distances, values, strict=True)]
    assert float(contrastive(*case, 0.7)) == pytest.approx(sum(terms) / 12, rel=1e-5)


def test_rank_against_a_loop(case):
    distances, values, owners = case
    odds = [math.log(float(value) / (1 - float(value))) / (2 * math.log(99)) for value in values]
    halves = []
    for within in (True, False):
        total = weight = 0.0
        for i in range(12):
            for j in range(12):
                sure = odds[i] - odds[j]
                if sure > 0.1 and (owners[i] == owners[j] or not within):
                    total += sure * math.log1p(math.exp(float(distances[i] - distances[j]) / 0.03))
                    weight += sure
        halves.append(total / weight)
    assert float(rank(*case, 1.0)) == pytest.approx(sum(halves) / 2, rel=1e-4)


@pytest.mark.parametrize("name", LOSSES)
def test_the_right_order_costs_less(name):
    values, owners = torch.tensor([1.0, 0.7, 0.3, 0.0]), torch.zeros(4, dtype=torch.long)
    right, wrong = torch.tensor([0.1, 0.4, 0.8, 1.2]), torch.tensor([1.2, 0.8, 0.4, 0.1])
    assert LOSSES[name](right, values, owners, 1.0) < LOSSES[name](wrong, values, owners, 1.0)


@pytest.mark.parametrize("name", ["triplet", "rank"])
def test_nothing_to_compare_costs_nothing(name):
    distances = torch.tensor([0.1, 0.9], requires_grad=True)
    loss = LOSSES[name](distances, torch.tensor([0.4, 0.4]), torch.tensor([0, 1]), 1.0)
    loss.backward()
    assert loss.item() == 0
    assert torch.equal(distances.grad, torch.zeros(2))


def test_the_poor_are_ordered_as_surely_as_the_good():
    values, owners = torch.tensor([0.98, 0.9, 0.1, 0.02]), torch.zeros(4, dtype=torch.long)
    first, second, sure = surely_ordered(values, owners)
    found = {(int(i), int(j)): float(s) for i, j, s in zip(first, second, sure, strict=True)}
    assert found[0, 1] == pytest.approx(found[2, 3], rel=1e-4)
    assert found[0, 1] > 0.1
    everything, nothing = torch.tensor([1.0, 0.0]), torch.zeros(2, dtype=torch.long)
    assert surely_ordered(everything, nothing)[2].tolist() == pytest.approx([1.0])
