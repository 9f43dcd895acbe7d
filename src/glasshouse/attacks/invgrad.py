"""InvGrad: match the direction of the gradient under a total-variation prior."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Self

import torch
from torch import Tensor, nn

from glasshouse import checks
from glasshouse.attacks.base import Grid, InversionAttack, LabelUse, attacks, best, finite
from glasshouse.attacks.descent import Pace, ScheduleName, descend
from glasshouse.attacks.engine.masked import MaskedCosine
from glasshouse.attacks.engine.objectives import Cosine
from glasshouse.attacks.engine.problems import Problem
from glasshouse.attacks.explanations import Explanation, Matched, SoftlyLabelled, Unrolled
from glasshouse.attacks.labels import known_labels, refuse_hidden_labels
from glasshouse.attacks.targets import mean_gradient, trusted
from glasshouse.devices import home_of
from glasshouse.functional.variation import total_variations
from glasshouse.models import normalization
from glasshouse.registry import setting
from glasshouse.types import Observation, Progress, Reconstruction, no_progress

AGAIN = 2  # times that a start which ended in NaN is tried anew
PAPER_LR = 0.1


@dataclass(frozen=True, slots=True, eq=False)
class Attempt:
    """One restart against one observation."""

    seen: Observation
    problem: Problem
    rng: torch.Generator


@attacks.register("invgrad")
@dataclass(frozen=True, kw_only=True)
class InvGrad(InversionAttack):
    """Adam on the image gradient of 1 - cosine + TV, in the model's normalized pixel space.

    ``preset=paper`` is the published loop, step for step: signs of derivatives, step sizes divided by 10 three times,
    never an early end. Without it the same objective is reached in fewer steps.
    """

    paper: ClassVar[str] = "Geiping et al. 2020, Inverting Gradients"
    together: ClassVar[int] = 16
    follows_device: ClassVar[bool] = True
    by_engine: ClassVar[bool] = True
    takes_updates: ClassVar[bool] = True
    takes_some_layers: ClassVar[bool] = True
    grid: ClassVar[Grid] = (
        ("tv", (1e-4, 1e-3, 1e-2, 1e-1)),
        ("annealed", (False,)),
        ("sign", (False,)),
        ("lr", (0.03, 0.3)),
        ("masked", (True,)),
        ("skip", ("classifier",)),
    )
    version: ClassVar[int] = 4

    steps: int = setting(1000, "optimiser steps per restart at most (published: 4,000 to 24,000; SemSim: 8,000)")
    tv: float = setting(1e-4, "weight of total variation (published: 1e-6 to 1e-1; SemSim: 1e-4)")
    lr: float = setting(PAPER_LR, "first step size in normalized pixels")
    restarts: int = setting(1, "independent starts; the one with the lowest final objective is kept")
    preset: Literal["own", "paper"] = setting("own", "paper: the published loop, whatever the next four settings say")
    schedule: ScheduleName = setting("cosine", "how step sizes fall: along a cosine, or as in the paper")
    sign: bool = setting(True, "whether Adam sees only the signs of derivatives")
    annealed: bool = setting(
        True, "whether total variation weighs three times as much at first, and nothing in the end"
    )
    patience: int | None = setting(None, "steps without a gain after which a tenth of the schedule is skipped")
    layers: str = setting("*", "match only parameters of these names: patterns with * and ?, joined by +")
    skip: str = setting("none", "leave parameters of these names out; classifier stands for the last layer")
    masked: bool = setting(False, "match only where the shared gradient is not zero (the answer to pruning)")
    labels: Literal["known", "optimised"] = setting("known", "given or read off the gradient, or optimised along")

    def __post_init__(self) -> None:
        checks.at_least("steps", self.steps, 1)
        checks.at_least("tv", self.tv, 0)
        checks.at_least("lr", self.lr, 1e-9)
        checks.at_least("restarts", self.restarts, 1)
        checks.one_of("schedule", self.schedule, ("cosine", "paper"))
        checks.one_of("labels", self.labels, ("known", "optimised"))
        checks.one_of("preset", self.preset, self.presets())
        if self.patience is not None:
            checks.at_least("patience", self.patience, 1)

    @classmethod
    def presets(cls) -> tuple[str, ...]:
        """The known presets."""
        return "own", "paper"

    @property
    def pace(self) -> Pace:
        """How the descent goes; under a preset, as published."""
        if self.preset != "own":
            return Pace(self.steps, self.lr, "paper", None, sign=True, annealed=False)
        return Pace(self.steps, self.lr, self.schedule, self.patience, self.sign, self.annealed)

    @property
    def labels_used(self) -> LabelUse:
        """What becomes of the labels at these settings."""
        return "optimised" if self.labels == "optimised" else super().labels_used

    def tunable(self) -> Self:
        """The same loop, written out: under a preset the settings that tuning changes would not count."""
        pace = self.pace
        return replace(
            self,
            preset="own",
            schedule=pace.schedule,
            patience=pace.patience,
            sign=pace.sign,
            annealed=pace.annealed,
        )

    def refuse(self, model: nn.Module, seen: Observation) -> None:
        """Refuse patterns that leave nothing to match, and labels that nobody gives and no layer tells."""
        super().refuse(model, seen)
        if self.labels == "known" and seen.labels is None:
            refuse_hidden_labels(model, seen)
        trusted(model, seen.rounds[0].tensors, self.layers, self.skip)

    @property
    def at_once(self) -> int:
        """Every restart."""
        return self.restarts

    def run(self, model: nn.Module, seen: Observation, *, rng: torch.Generator, progress: Progress) -> Reconstruction:
        """Run every restart and keep the one the attacker likes best."""
        return self.run_all(model, [seen], rngs=[rng], progress=progress)[0]

    def run_all(
        self, model: nn.Module, seen: Sequence[Observation], *, rngs: Sequence[torch.Generator], progress: Progress
    ) -> list[Reconstruction]:
        """Run every restart of every observation at once; of each the one the attacker likes best is kept."""
        attempts: list[Attempt] = []
        for one, rng in zip(seen, rngs, strict=True):
            target = mean_gradient(one)
            labels = self._labels(model, one)
            problem = Problem(trusted(model, target, self.layers, self.skip), labels)
            attempts += [Attempt(one, problem, rng)] * self.restarts
        tries = self._descend(model, attempts, progress)
        for _ in range(AGAIN):
            lost = [number for number, found in enumerate(tries) if not finite(found)]
            anew = self._descend(model, [attempts[number] for number in lost], no_progress) if lost else []
            for number, found in zip(lost, anew, strict=True):
                tries[number] = found
        return [best(self.name, tries[at : at + self.restarts]) for at in range(0, len(tries), self.restarts)]

    def _labels(self, model: nn.Module, seen: Observation) -> Tensor:
        """The labels to begin with; those that are optimised begin anywhere."""
        if self.labels == "optimised":
            return torch.zeros(seen.batch_size, dtype=torch.long, device=home_of(model))
        return known_labels(model, seen)

    def _explanation(self, model: nn.Module, attempts: Sequence[Attempt]) -> Explanation:
        """The engine where it fits; autograd for updates, and for labels that are optimised along."""
        seen, problems = attempts[0].seen, [one.problem for one in attempts]
        objective = MaskedCosine() if self.masked else Cosine()
        if self.labels == "optimised":
            shape = (seen.batch_size, seen.image.classes)
            logits = torch.cat([torch.randn(shape, generator=one.rng) for one in attempts]).to(home_of(model))
            return SoftlyLabelled(model, seen, problems, objective, logits)
        kind = Matched if seen.rounds[0].kind == "gradient" else Unrolled
        return kind(model, seen, problems, objective)

    def _descend(self, model: nn.Module, attempts: Sequence[Attempt], progress: Progress) -> list[Reconstruction]:
        """Descend on all attempts, each by itself."""
        group, image = attempts[0].seen.batch_size, attempts[0].seen.image
        drawn = torch.cat([torch.randn((group, *image.shape), generator=one.rng) for one in attempts])
        start = drawn.to(home_of(model))
        explanation = self._explanation(model, attempts)
        mean, std = normalization(model)

        def objectives(dummy: Tensor, live: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            """Of every problem its own, and derivatives of distances and priors by the normalized pixels."""
            distances, pull = explanation.step(dummy * std + mean, live)
            x = dummy.detach().requires_grad_()
            priors = self.prior(model, [attempts[number].seen for number in live.tolist()], x, x * std + mean)
            (push,) = torch.autograd.grad(priors.sum(), x)
            return distances + priors.detach(), pull * std, push

        box = ((0 - mean) / std, (1 - mean) / std)
        dummy = descend(start, group, self.pace, box, objectives, explanation.learn, progress)
        final = objectives(dummy, torch.arange(len(attempts), device=start.device))[0].tolist()
        images = (dummy * std + mean).clamp(0, 1).split(group)
        return [
            Reconstruction(own, value, labels)
            for own, value, labels in zip(images, final, explanation.labels.split(group), strict=True)
        ]

    def prior(self, model: nn.Module, seen: Sequence[Observation], normalized: Tensor, images: Tensor) -> Tensor:
        """How unlikely each problem's images (problems * batch, C, H, W) are, (problems,): by default, how rough."""
        return self.tv * total_variations(normalized, seen[0].batch_size)
