"""DLG: match the gradient itself by L-BFGS over image and label together."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from glasshouse import checks
from glasshouse.attacks.base import Grid, InversionAttack, LabelUse, attacks, best, target_gradients
from glasshouse.devices import home_of
from glasshouse.errors import ModelError
from glasshouse.functional.gradients import parameter_gradients, squared_distance
from glasshouse.functional.smoothness import rough_functions
from glasshouse.registry import setting
from glasshouse.types import Observation, Progress, Reconstruction

INNER_STEPS = 20  # what torch's L-BFGS, and so the published code, takes per outer step


@attacks.register("dlg")
@dataclass(frozen=True, kw_only=True)
class DLG(InversionAttack):
    """L-BFGS on the squared gradient distance; soft label logits are optimised along with the image."""

    paper: ClassVar[str] = "Zhu et al. 2019, Deep Leakage from Gradients"
    label_use: ClassVar[LabelUse] = "optimised"
    grid: ClassVar[Grid] = (("lr", (0.5, 0.1)), ("float64", (True,)))
    follows_device: ClassVar[bool] = True
    version: ClassVar[int] = 3

    steps: int = setting(300, "outer L-BFGS steps per restart, 20 inner steps each")
    lr: float = setting(1.0, "L-BFGS step size")
    restarts: int = setting(4, "independent starts at most; the one with the lowest final objective is kept")
    stop_below: float = setting(1e-6, "a start has converged when its objective falls below this")
    float64: bool = setting(False, "whether to compute in double precision, where L-BFGS goes on for longer")

    def __post_init__(self) -> None:
        checks.at_least("steps", self.steps, 1)
        checks.at_least("lr", self.lr, 1e-9)
        checks.at_least("restarts", self.restarts, 1)
        checks.at_least("stop_below", self.stop_below, 0)

    def refuse(self, model: nn.Module, seen: Observation) -> None:
        """Refuse networks whose second derivative vanishes almost everywhere."""
        super().refuse(model, seen)
        rough = rough_functions(model, torch.full((1, *seen.image.shape), 0.5, device=home_of(model)))
        if rough:
            raise ModelError(
                f"Attack '{self.name}' needs a smooth network, but this one calls {', '.join(rough)}: "
                "use invgrad, or a model with smooth activations such as lenet."
            )

    def run(self, model: nn.Module, seen: Observation, *, rng: torch.Generator, progress: Progress) -> Reconstruction:
        """Restart until one start converges; keep the one the attacker likes best."""
        kind, device = torch.float64 if self.float64 else torch.float32, home_of(model)
        network = copy.deepcopy(model).to(kind) if self.float64 else model
        target = [one.to(kind) for one in target_gradients(model, seen)]
        tries: list[Reconstruction] = []
        for number in range(self.restarts):
            start = torch.randn((seen.batch_size, *seen.image.shape), generator=rng)
            logits = torch.randn((seen.batch_size, seen.image.classes), generator=rng)
            labels = self.fixed_labels(model, seen)
            tries.append(
                self._descend(
                    network,
                    target,
                    start.to(device, kind),
                    logits.to(device, kind) if labels is None else labels,
                    lambda share, number=number: progress((number + share) / self.restarts),  # type: ignore[misc]
                )
            )
            if tries[-1].objective < self.stop_below:
                break
        progress(1.0)
        return best(self.name, tries)

    def fixed_labels(self, model: nn.Module, seen: Observation) -> Tensor | None:
        """Labels that need no optimising; DLG has none."""
        return None

    def _descend(
        self, model: nn.Module, target: list[Tensor], start: Tensor, labels: Tensor, progress: Progress
    ) -> Reconstruction:
        soft = labels.is_floating_point()
        dummy = start.clone().requires_grad_()
        unknowns = [dummy, labels.clone().requires_grad_()] if soft else [dummy]
        optimizer = torch.optim.LBFGS(unknowns, lr=self.lr, max_iter=INNER_STEPS)
        targets = unknowns[-1] if soft else labels

        # L-BFGS without a line search may leave a valley for good, so what was best on the way is kept
        kept, lowest = [unknown.detach().clone() for unknown in unknowns], float("inf")

        def objective() -> float:
            nonlocal kept, lowest
            probabilities = targets.softmax(1) if soft else targets
            distance = squared_distance(parameter_gradients(model, dummy, probabilities, create_graph=True), target)
            for unknown, pull in zip(unknowns, torch.autograd.grad(distance, unknowns), strict=True):
                unknown.grad = pull
            if float(distance.detach()) < lowest:
                kept, lowest = [unknown.detach().clone() for unknown in unknowns], float(distance.detach())
            return float(distance.detach())

        for step in range(self.steps):
            value = float(optimizer.step(objective))
            if not value < float("inf"):
                break  # diverged: NaN or infinity never comes back
            progress((step + 1) / self.steps)
            if value < self.stop_below:
                break
        with torch.no_grad():
            for unknown, one in zip(unknowns, kept, strict=True):
                unknown.copy_(one)
            dummy.clamp_(0, 1)
        final = targets.detach().argmax(1) if soft else labels
        return Reconstruction(dummy.detach().float(), objective(), final)
