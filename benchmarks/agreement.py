"""Whether the engine's derivatives are autograd's.

A ReLU whose input is zero to rounding may fall to either side, for autograd in single precision as well, and then the
derivative is that of another linear piece. So single precision is compared on the piece that the engine is on: autograd
in double precision sends every ReLU where the engine's went. How many went elsewhere by themselves is shown, and what
they make of the difference.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import torch
from clock import row
from matching import derivative, victim
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from glasshouse.attacks.engine.functions import Rectifier
from glasshouse.attacks.engine.matcher import Loop, Stacked
from glasshouse.attacks.engine.objectives import Objective
from glasshouse.attacks.engine.tape import Tape

RELUS = (F.relu, torch.relu, torch.relu_, Tensor.relu, Tensor.relu_)


class Sides(TorchFunctionMode):
    """ReLUs that go where the engine's went in its last step: image by image, in the order of the model's code."""

    def __init__(self, engine: Tape) -> None:
        super().__init__()
        images = zip(*(side.split(1) for side in sides(engine)), strict=True)
        self.taken = iter([one for image in images for one in image])

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """The input where the engine's was above zero; any other function as it is."""
        return args[0] * next(self.taken) if func in RELUS else func(*args, **(kwargs or {}))


class SameSides(Loop):
    """Autograd of autograd on the linear piece of the engine's last step."""

    def __init__(self, loop: Loop, engine: Tape) -> None:
        super().__init__(loop.model, loop.group)
        self.engine = engine

    def step(self, images: Tensor, labels: Tensor, target: Stacked, objective: Objective) -> tuple[Tensor, Tensor]:
        """Objectives and derivatives."""
        with Sides(self.engine):
            return super().step(images, labels, target, objective)


def sides(engine: Tape) -> list[Tensor]:
    """Where the ReLUs of a step were above zero."""
    return [entry.node.y > 0 for entry in engine.entries if isinstance(entry.node, Rectifier)]


def agreement(name: str) -> list[dict[str, object]]:
    """Largest relative differences of the derivative from autograd's at the same images."""
    model = victim(name)[0]
    double = copy.deepcopy(model).double()
    single_loop, double_loop = Loop(model, 1), Loop(double, 1)
    single_engine, double_engine = Tape(model, 1), Tape(double, 1)
    found, exact = derivative(single_engine, model), derivative(double_engine, double)
    single, reference = derivative(single_loop, model), derivative(double_loop, double)
    same = difference(found, derivative(SameSides(double_loop, single_engine), double))
    pairs = list(zip(sides(single_engine), sides(double_engine), strict=True))
    other = sum(int((first != second).sum()) for first, second in pairs)
    what = f"{name}: largest relative difference of the derivative"
    return [
        row(
            f"{what}, single precision, every ReLU on the same side",
            f"{same:.1e}; by rounding {other} of {sum(first.numel() for first, _ in pairs)} ReLUs change sides, with "
            f"them {difference(found, reference):.1e} (autograd from itself {difference(single, reference):.1e})",
            "1e-4",
            same < 1e-4,
        ),
        row(
            f"{what}, double precision",
            f"{difference(exact, reference):.1e}",
            "1e-9",
            difference(exact, reference) < 1e-9,
        ),
    ]


def difference(found: Tensor, reference: Tensor) -> float:
    """The largest difference, relative to the largest value of the same image."""
    return float(((found - reference).abs().amax((1, 2, 3)) / reference.abs().amax((1, 2, 3))).max())
