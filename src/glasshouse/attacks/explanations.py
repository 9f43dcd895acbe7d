"""How far guesses are from explaining what was shared, for many problems at once, with derivatives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from glasshouse.attacks.engine.objectives import Objective
from glasshouse.attacks.engine.problems import Matching, Problem
from glasshouse.functional.gradients import parameter_gradients, parameter_names
from glasshouse.functional.local import local_update
from glasshouse.types import Observation, SharedUpdate


class Explanation(ABC):
    """Objectives of problems with ``group`` images each, and all that is found beside the images."""

    @abstractmethod
    def step(self, images: Tensor, live: Tensor) -> tuple[Tensor, Tensor]:
        """Objectives of some problems and the derivative of their sum by their images in [0, 1]."""

    @property
    @abstractmethod
    def labels(self) -> Tensor:
        """The labels that the guesses are explained with, class numbers (problems * group,)."""

    def learn(self, rates: Tensor, live: Tensor) -> None:  # noqa: B027 - most have nothing to learn
        """Move what is optimised beside the images of some problems."""


class Matched(Explanation):
    """One gradient per problem with labels that are known: what the engine is made for."""

    def __init__(self, model: nn.Module, seen: Observation, problems: Sequence[Problem], objective: Objective) -> None:
        self.all = self.matching = Matching.of(model, seen, problems, objective)
        self.live = torch.arange(len(problems), device=self.all.labels.device)

    def step(self, images: Tensor, live: Tensor) -> tuple[Tensor, Tensor]:
        """Objectives and derivatives, by the engine."""
        if not torch.equal(live, self.live):
            self.live, self.matching = live, self.all.some(live.tolist())
        return self.matching.step(images)

    @property
    def labels(self) -> Tensor:
        """Those that were known."""
        return self.all.labels


class Unrolled(Explanation):
    """Messages that the engine does not know, one problem after another by autograd.

    Updates are explained by differentiating through the local training behind them.
    """

    def __init__(self, model: nn.Module, seen: Observation, problems: Sequence[Problem], objective: Objective) -> None:
        self.model, self.group, self.message = model, seen.batch_size, seen.rounds[0]
        self.problems, self.objective = problems, objective
        self.known = torch.cat([one.labels for one in problems])

    def step(self, images: Tensor, live: Tensor) -> tuple[Tensor, Tensor]:
        """Objectives and derivatives."""
        values, derivatives = [], []
        for number, own in zip(live.tolist(), images.split(self.group), strict=True):
            x = own.detach().requires_grad_()
            value, beside = self._distance(number, x)
            pull, *others = torch.autograd.grad(value, [x, *beside])
            self._remember(number, others)
            values.append(value.detach())
            derivatives.append(pull)
        return torch.stack(values), torch.cat(derivatives)

    @property
    def labels(self) -> Tensor:
        """Those that were known."""
        return self.known

    def _distance(self, number: int, images: Tensor) -> tuple[Tensor, list[Tensor]]:
        """One problem's objective, and what it is to be derived by beside the images."""
        targets, beside = self._targets(number)
        found = explained(self.model, images, targets, self.message)
        wanted = self.problems[number].target
        return self.objective.plain([found[name] for name in wanted], list(wanted.values())), beside

    def _targets(self, number: int) -> tuple[Tensor, list[Tensor]]:
        """The labels of a problem, and those of them that are unknown."""
        return self.known[self._places(number)], []

    def _remember(self, number: int, derivatives: Sequence[Tensor]) -> None:
        """Keep derivatives by what is unknown beside the images, until it is moved."""

    def _places(self, number: int) -> slice:
        return slice(number * self.group, (number + 1) * self.group)


class SoftlyLabelled(Unrolled):
    """The same with labels as softmax of logits (problems * group, classes) that Adam moves along with the images."""

    def __init__(
        self,
        model: nn.Module,
        seen: Observation,
        problems: Sequence[Problem],
        objective: Objective,
        logits: Tensor,
    ) -> None:
        super().__init__(model, seen, problems, objective)
        self.logits = logits.clone()
        self.logits.grad = torch.zeros_like(logits)
        self.optimizer = torch.optim.Adam([self.logits], lr=1.0)

    @property
    def labels(self) -> Tensor:
        """The likeliest ones."""
        return self.logits.argmax(1)

    def learn(self, rates: Tensor, live: Tensor) -> None:
        """Move the logits of each problem at its own step size."""
        sizes = rates.new_zeros(len(self.problems))
        sizes[live] = rates
        before = self.logits.clone()
        self.optimizer.step()
        self.logits.sub_(before).mul_(sizes.repeat_interleave(self.group)[:, None]).add_(before)

    def _targets(self, number: int) -> tuple[Tensor, list[Tensor]]:
        own = self.logits[self._places(number)].requires_grad_()
        return own.softmax(1), [own]

    def _remember(self, number: int, derivatives: Sequence[Tensor]) -> None:
        if self.logits.grad is not None:
            self.logits.grad[self._places(number)] = derivatives[0]


def explained(model: nn.Module, images: Tensor, targets: Tensor, message: SharedUpdate) -> dict[str, Tensor]:
    """What a client with these images would have shared, by parameter name, differentiable by them."""
    if message.kind == "gradient" or message.learning_rate is None:
        found = parameter_gradients(model, images, targets, create_graph=True)
        return dict(zip(parameter_names(model), found, strict=True))
    return local_update(
        model,
        images,
        targets,
        learning_rate=message.learning_rate,
        steps=message.local_steps,
        batch=message.local_batch,
    )
