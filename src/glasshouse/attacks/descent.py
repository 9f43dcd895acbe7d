"""Descent on many problems at once, each at its own pace."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from glasshouse.devices import CPU
from glasshouse.types import Progress

ScheduleName = Literal["cosine", "paper"]

#: Given images and which problems they are of: objectives (problems,), and the derivatives by the images of what they
#: consist of, the distance and the prior.
Objectives = Callable[[Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]
#: Told the step sizes of problems, so that what is optimised beside the images can follow.
Learn = Callable[[Tensor, Tensor], None]

DECAY_AT = (3 / 8, 5 / 8, 7 / 8)
DECAY = 0.1
GAIN = 0.01  # share by which an objective must fall to count as better
EPSILON = 1e-12  # smaller than usual, because derivatives may be tiny; beside signs neither counts
ANNEALED_FROM = 3.0
JUMP = 0.1  # share of its schedule that a problem skips where it gains nothing


def cosine(at: Tensor, steps: int) -> Tensor:
    """From one to zero along half a wave (Loshchilov and Hutter 2017)."""
    return (1 + torch.cos(math.pi * at / steps)) / 2


def paper(at: Tensor, steps: int) -> Tensor:
    """Divided by ten at 3/8, 5/8 and 7/8 of the steps (Geiping et al. 2020)."""
    passed = [(at >= int(steps * share)).to(at.dtype) for share in DECAY_AT]
    return DECAY ** torch.stack(passed).sum(0)


SCHEDULES: dict[str, Callable[[Tensor, int], Tensor]] = {"cosine": cosine, "paper": paper}


@dataclass(frozen=True, slots=True)
class Pace:
    """How a descent goes: at most ``steps`` steps of size ``lr`` and less, by sign or by the derivative itself.

    A problem whose objective did not fall by a hundredth in ``patience`` steps skips a tenth of its schedule; with
    none it never does. An ``annealed`` prior pulls three times as strongly at first and not at all in the end.
    """

    steps: int
    lr: float
    schedule: ScheduleName
    patience: int | None
    sign: bool
    annealed: bool

    @property
    def memory(self) -> float:
        """How slowly Adam forgets the size of derivatives; that of signs never changes."""
        return 0.999 if self.sign else 0.99

    def rates(self, at: Tensor) -> Tensor:
        """Step sizes at some places of the schedule; zero behind its end."""
        return torch.where(at < self.steps, self.lr * SCHEDULES[self.schedule](at, self.steps), 0.0)

    def prior_weights(self, at: Tensor) -> Tensor:
        """How strongly the prior pulls at some places of the schedule."""
        return ANNEALED_FROM * (1 - at / self.steps).clamp_min(0) if self.annealed else torch.ones_like(at)


class Clock:
    """Where in its schedule each problem is, by its own objective alone."""

    def __init__(self, pace: Pace, problems: int, device: torch.device = CPU) -> None:
        self.pace = pace
        self.at = torch.zeros(problems, dtype=torch.float64, device=device)
        self.best = torch.full((problems,), float("inf"), device=device)
        self.waited = torch.zeros(problems, dtype=torch.long, device=device)

    def running(self) -> Tensor:
        """The problems that are not at their end."""
        return (self.at < self.pace.steps).nonzero().flatten()

    def tick(self, live: Tensor, values: Tensor) -> None:
        """Go on by a step, or by many where nothing was gained for long."""
        better = values < self.best[live] * (1 - GAIN)
        self.best[live] = torch.where(better, values, self.best[live])
        self.waited[live] = torch.where(better, 0, self.waited[live] + 1)
        self.at[live] += 1
        self.at[live[~values.isfinite()]] = self.pace.steps  # NaN never comes back
        if self.pace.patience is not None:
            stuck = live[self.waited[live] >= self.pace.patience]
            self.at[stuck] += JUMP * self.pace.steps
            self.waited[stuck] = 0


class Adam:
    """Adam (Kingma and Ba 2015) with a step size for each image of a batch."""

    def __init__(self, like: Tensor, memory: float) -> None:
        self.first, self.second = torch.zeros_like(like), torch.zeros_like(like)
        self.decay = (0.9, memory)
        self.steps = 0

    def move(self, rows: Tensor, derivative: Tensor, sizes: Tensor) -> Tensor:
        """How far to move the images in some rows."""
        self.steps += 1
        one, two = self.decay
        self.first[rows] = one * self.first[rows] + (1 - one) * derivative
        self.second[rows] = two * self.second[rows] + (1 - two) * derivative.square()
        spread = (self.second[rows] / (1 - two**self.steps)).sqrt() + EPSILON
        return -sizes[:, None, None, None] * self.first[rows] / (1 - one**self.steps) / spread


def descend(
    start: Tensor,
    group: int,
    pace: Pace,
    box: tuple[Tensor, Tensor],
    objectives: Objectives,
    learn: Learn,
    progress: Progress,
) -> Tensor:
    """Descend from a start (problems * group, C, H, W) inside a box of pixels; every problem goes by itself."""
    found = start.clone()
    clock = Clock(pace, len(start) // group, start.device)
    adam = Adam(start, pace.memory)
    within = torch.arange(group, device=start.device)
    live = clock.running()
    while len(live):
        rows = (live[:, None] * group + within).flatten()
        values, pull, push = objectives(found[rows], live)
        rates, weights = (of(clock.at[live]).to(found.dtype) for of in (pace.rates, pace.prior_weights))
        derivative = pull + push * weights.repeat_interleave(group)[:, None, None, None]
        moved = adam.move(rows, derivative.sign() if pace.sign else derivative, rates.repeat_interleave(group))
        found[rows] = (found[rows] + moved).clamp(*box)
        learn(rates, live)
        clock.tick(live, values)
        running = clock.running()
        # those at their end wait for the others until they are half of all: each new count costs a preparation
        live = running if 2 * len(running) <= len(live) else live
        progress(min(float(clock.at.amin()) / pace.steps, 1.0))
    progress(1.0)
    return found
