"""Descent: the published schedule is torch's own, plateaus are skipped, and what is at its end stays as it is."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from glasshouse.attacks.descent import Clock, Pace, descend
from glasshouse.types import no_progress

PAPER = Pace(16, 0.1, "paper", None, sign=True, annealed=False)
BOX = (torch.tensor(-9.0), torch.tensor(9.0))


def valley(x: torch.Tensor, live: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return x.square().flatten(1).sum(1), 2 * x, torch.zeros_like(x)


def ignored(rates: torch.Tensor, live: torch.Tensor) -> None:
    pass


@pytest.mark.parametrize("steps", [1, 7, 16, 100])
def test_the_published_schedule_is_torchs(steps):
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    wanted = torch.optim.lr_scheduler.MultiStepLR(optimizer, [int(steps * at) for at in (3 / 8, 5 / 8, 7 / 8)], 0.1)
    pace = dataclasses.replace(PAPER, steps=steps)
    for step in range(steps):
        rate = float(pace.rates(torch.tensor([step], dtype=torch.float64)))
        assert rate == pytest.approx(optimizer.param_groups[0]["lr"])
        optimizer.step()
        wanted.step()


@pytest.mark.parametrize("sign", [True, False])
def test_adam_is_torchs(sign):
    pace = Pace(6, 0.1, "cosine", None, sign=sign, annealed=False)
    start = torch.randn(3, 1, 2, 2, generator=torch.Generator().manual_seed(0))
    found = descend(start, 1, pace, BOX, valley, ignored, no_progress)
    x = start.clone().requires_grad_()
    optimizer = torch.optim.Adam([x], lr=0.1, betas=(0.9, pace.memory), eps=1e-12)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 6)
    for _ in range(6):
        x.grad = (2 * x.detach()).sign() if sign else 2 * x.detach()
        optimizer.step()
        schedule.step()
    torch.testing.assert_close(found, x.detach())


def test_a_problem_that_gains_nothing_moves_on_and_the_others_do_not():
    clock = Clock(Pace(100, 0.1, "cosine", 3, sign=True, annealed=False), 2)
    for step in range(5):
        clock.tick(torch.arange(2), torch.tensor([1.0, 0.5**step]))
    assert clock.at.tolist() == [15, 5]


def test_nan_ends_a_problem_at_once():
    clock = Clock(PAPER, 2)
    clock.tick(torch.arange(2), torch.tensor([float("nan"), 1.0]))
    assert clock.running().tolist() == [1]


def test_problems_at_their_end_cost_no_more_steps():
    counts: list[int] = []

    def flat_but_for_the_last(x, live):
        counts.append(len(live))
        values, pull, push = valley(x, live)
        return torch.where(live == 3, values, torch.ones(len(live))), pull, push

    pace = Pace(60, 0.1, "cosine", 2, sign=False, annealed=False)
    start = torch.full((4, 1, 2, 2), 5.0)
    descend(start, 1, pace, BOX, flat_but_for_the_last, ignored, no_progress)
    assert counts[0] == 4
    assert counts[-1] == 1
    assert sum(counts) < 4 * 60


def test_an_annealed_prior_pulls_three_times_at_first_and_not_at_the_end():
    pace = dataclasses.replace(PAPER, annealed=True)
    assert pace.prior_weights(torch.tensor([0.0, 8.0, 16.0, 20.0])).tolist() == [3, 1.5, 0, 0]
    assert PAPER.prior_weights(torch.tensor([0.0, 8.0])).tolist() == [1, 1]
