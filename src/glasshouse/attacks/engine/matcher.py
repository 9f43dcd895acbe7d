"""What gradient-matching attacks compute with: the fast engine where it fits a model, a plain loop elsewhere."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from glasshouse.attacks.engine.objectives import Cosine, Objective
from glasshouse.devices import home_of
from glasshouse.functional.gradients import parameter_gradients, parameter_names

log = logging.getLogger(__name__)

Stacked = Mapping[str, Tensor]

TOLERANCE = 1e-2  # largest relative difference between engine and loop in single precision


class Matcher(ABC):
    """Objectives of many independent problems and their derivatives by the images.

    A problem is one shared gradient with ``group`` images behind it. Images are (problems * group, C, H, W) in the
    model's own range, labels class numbers or probabilities in the same order, gradients (problems, ...) each.
    """

    @abstractmethod
    def pack(self, target: Stacked) -> Stacked:
        """Shared gradients (problems, *parameter.shape) in the layout that ``step`` wants them in."""

    @abstractmethod
    def step(self, images: Tensor, labels: Tensor, target: Stacked, objective: Objective) -> tuple[Tensor, Tensor]:
        """Objectives (problems,), and the derivative of their sum by the images."""

    @abstractmethod
    def bytes_per_problem(self, image: tuple[int, int, int]) -> int:
        """About how much memory a step takes for each problem, by counting."""


class Loop(Matcher):
    """One problem after another, by autograd of autograd: slow, clear, and right for any model."""

    def __init__(self, model: nn.Module, group: int) -> None:
        self.model = model
        self.group = group

    def pack(self, target: Stacked) -> Stacked:
        """As they are."""
        return target

    def step(self, images: Tensor, labels: Tensor, target: Stacked, objective: Objective) -> tuple[Tensor, Tensor]:
        """Objectives and derivatives."""
        values, derivatives = [], []
        seen = [place for place, name in enumerate(parameter_names(self.model)) if name in target]
        batches = zip(images.split(self.group), labels.split(self.group), strict=True)
        for number, (own, truth) in enumerate(batches):
            x = own.detach().requires_grad_()
            found = parameter_gradients(self.model, x, truth, create_graph=True)
            value = objective.plain([found[place] for place in seen], [one[number] for one in target.values()])
            derivatives.append(torch.autograd.grad(value, x)[0])
            values.append(value.detach())
        return torch.stack(values), torch.cat(derivatives)

    def bytes_per_problem(self, image: tuple[int, int, int]) -> int:
        """What it has to match; all else is there for one problem at a time."""
        return parameter_bytes(self.model)


def parameter_bytes(model: nn.Module) -> int:
    """Memory of a model's parameters, and so of one gradient."""
    return sum(parameter.nbytes for parameter in model.parameters())


def matcher_for(model: nn.Module, image: tuple[int, int, int], classes: int, group: int) -> Matcher:
    """The engine if it agrees with the loop on this very model, tried on noise; else the loop.

    The model's operations are taken one by one, and where that fails all of it as one.
    """
    from glasshouse.attacks.engine.tape import Tape

    loop = Loop(model, group)
    for whole in (False, True):
        try:
            engine = Tape(model, group, whole=whole)
            difference = _disagreement(engine, loop, image, classes, group)
        # the loop is the judge: what the model's own code raises only under the engine, and that may be anything, is
        # no fault of the model, and what it raises in the loop as well is raised again by the loop itself
        except Exception as error:  # noqa: BLE001 - see above
            log.debug("the engine does not take the model, whole=%s: %s", whole, error)
            continue
        if difference < TOLERANCE:
            return engine
        log.debug("the engine is off by %g, whole=%s", difference, whole)
    return loop


def _disagreement(engine: Matcher, loop: Loop, image: tuple[int, int, int], classes: int, group: int) -> float:
    """Largest difference between both on two problems of noise, relative to the derivative's largest value."""
    rng = torch.Generator().manual_seed(0)
    device = home_of(loop.model)
    truth, guess = (torch.rand((2 * group, *image), generator=rng).to(device) for _ in range(2))
    labels = torch.randint(0, classes, (2 * group,), generator=rng).to(device)
    names = parameter_names(loop.model)
    batches = zip(truth.split(group), labels.split(group), strict=True)
    each = [parameter_gradients(loop.model, images, own) for images, own in batches]
    target = {name: torch.stack([one[place] for one in each]) for place, name in enumerate(names)}
    (value, first), (other, second) = (
        matcher.step(guess, labels, matcher.pack(target), Cosine()) for matcher in (engine, loop)
    )
    scale = second.abs().amax().clamp_min(torch.finfo(second.dtype).tiny)
    return max(float((first - second).abs().amax() / scale), float((value - other).abs().amax()))
