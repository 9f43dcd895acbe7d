"""Gradient matching for many problems at once, with the derivative of the objective by the images.

For images x, weights W and gradients g(x) of the loss by W, the derivative of an objective F(g(x)) by x is the
derivative by x of <V, g(x)> with V = dF/dg held fixed, and <V, g(x)> is how the loss moves when the weights move
along V. So one ordinary sweep gives g, and a second one, in which tangents travel forward and a single gradient
back, gives the derivative: no graph of a graph, and every product is shared by all problems or batched over them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from glasshouse.attacks.engine.layers import LAYERS, Layer, Parts, Unsupported
from glasshouse.attacks.engine.matcher import Matcher, Stacked
from glasshouse.attacks.engine.objectives import Objective


@dataclass(eq=False)
class _Call:
    """One call of a layer, from the first sweep to the second."""

    layer: Layer
    parameters: tuple[str, ...]
    careful: bool
    output: Tensor | None = None
    found: Parts = ()
    into: Tensor | None = None
    direction: Parts = ()


class _First(torch.autograd.Function):
    """The first sweep through one layer."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, anchor: Tensor, call: _Call) -> Tensor:
        """The output."""
        ctx.call = call
        y = call.layer.forward(x)
        call.output = y.clone() if call.careful else y.detach()
        return y

    @staticmethod
    def backward(ctx: Any, d: Tensor) -> tuple[Tensor | None, None, None]:
        """The gradient by the input; the one by the parameters is kept."""
        call = ctx.call
        call.found = call.layer.gradients(d)
        call.into = call.layer.back(d) if ctx.needs_input_grad[0] else None
        return call.into, None, None


class _Second(torch.autograd.Function):
    """The second sweep through one layer.

    The loss moves linearly with the tangents, so their own gradients are those of the first sweep: what arrives
    at the output's tangent is not needed, and what the input's tangent is to get is known.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, t: Tensor | None, call: _Call) -> tuple[Tensor, Tensor]:
        """The output once more, and how it moves."""
        ctx.call = call
        ctx.set_materialize_grads(False)
        if call.output is None:
            raise RuntimeError("the second sweep came before the first")
        moved = call.layer.tangent(t, call.direction)
        ctx.mark_non_differentiable(moved)
        return call.output.clone() if call.careful else call.output.view_as(call.output), moved

    @staticmethod
    def backward(ctx: Any, d: Tensor | None, moved: Tensor | None) -> tuple[Tensor, Tensor | None, None]:
        """The derivative by the input, and by its tangent."""
        call = ctx.call
        return call.layer.tangent_back(d, call.direction), call.into, None


class _Rectified(torch.autograd.Function):
    """ReLU of a value and its tangent; unlike PyTorch's own it knows that the tangent's slope has no slope."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        """Both, where the value is above zero."""
        y = x.relu()
        moved = torch.ops.aten.threshold_backward(t, y, 0)
        ctx.save_for_backward(y)
        ctx.mark_non_differentiable(moved)
        return y, moved

    @staticmethod
    def backward(ctx: Any, d: Tensor, moved: Tensor) -> tuple[Tensor, None]:
        """The gradient, where the value is above zero."""
        (y,) = ctx.saved_tensors
        return torch.ops.aten.threshold_backward(d, y, 0), None


class _Rectifying(TorchFunctionMode):
    """Sends every ReLU of a value with a tangent to ``_Rectified``."""

    NAMES = frozenset({F.relu, F.relu_, torch.relu, torch.relu_, Tensor.relu, Tensor.relu_})

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Look for ReLU, let all else pass."""
        if function in self.NAMES:
            value, tangent = forward_ad.unpack_dual(args[0])
            if tangent is not None:
                return forward_ad.make_dual(*_Rectified.apply(value, tangent))  # type: ignore[no-untyped-call]
        return function(*args, **(kwargs or {}))


class Duals(Matcher):
    """A network prepared for two sweeps, in eval mode and with weights that stay as they are."""

    def __init__(self, model: nn.Module, group: int) -> None:
        self.model = model
        self.group = group
        self.kinds = {name: _layer_for(module) for name, module in model.named_modules() if _owns(module)}
        self.careful = False  # whether the model's own code overwrites what layers return

    def gradients(self, images: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """Gradients of each problem's mean loss, (problems, ...) by parameter, in the engine's own layout."""
        return self._collect(self._first(images, labels))

    def step(self, images: Tensor, labels: Tensor, target: Stacked, objective: Objective) -> tuple[Tensor, Tensor]:
        """Objectives and derivatives."""
        calls = self._first(images, labels)
        found = self._collect(calls)
        names = list(target)
        values, pulls = objective([found[name] for name in names], [target[name] for name in names])
        directions = dict(zip(names, pulls, strict=True))
        for call in calls:
            pairs = zip(call.parameters, call.found, strict=True)
            call.direction = tuple(directions.get(name, torch.zeros_like(own)) for name, own in pairs)
        return values, self._second(images, labels, calls)

    def pack(self, target: Stacked) -> Stacked:
        """Gradients (problems, *parameter.shape) in the engine's own layout."""
        packed: dict[str, Tensor] = {}
        for path, kind in self.kinds.items():
            module = self.model.get_submodule(path)
            names = _parameter_names(path, module)
            given = tuple(target.get(name, own[None]) for name, own in zip(names, module.parameters(), strict=True))
            packed |= dict(zip(names, kind(module, self.group).pack(given), strict=True))
        return {name: gradient for name, gradient in packed.items() if name in target}

    def _first(self, images: Tensor, labels: Tensor) -> list[_Call]:
        calls: list[_Call] = []
        anchor = torch.zeros((), dtype=images.dtype, requires_grad=True)  # so that the first layer is on the way back

        def forward(module: nn.Module, path: str, x: Tensor) -> Tensor:
            layer = self.kinds[path](module, self.group)
            calls.append(_Call(layer, _parameter_names(path, module), self.careful))
            y: Tensor = _First.apply(x, anchor, calls[-1])  # type: ignore[no-untyped-call]
            return y

        with self._swapped(forward):
            loss = F.cross_entropy(self.model(images), labels, reduction="sum") / self.group
        if not self.careful and any(call.output is not None and call.output._version for call in calls):
            self.careful = True
            return self._first(images, labels)
        torch.autograd.grad(loss, anchor, allow_unused=True)
        return calls

    def _second(self, images: Tensor, labels: Tensor, calls: list[_Call]) -> Tensor:
        waiting = iter(calls)

        def forward(module: nn.Module, path: str, x: Tensor) -> Tensor:
            primal, tangent = forward_ad.unpack_dual(x)
            y, moved = _Second.apply(primal, tangent, next(waiting))  # type: ignore[no-untyped-call]
            dual: Tensor = forward_ad.make_dual(y, moved)
            return dual

        x = images.detach().requires_grad_()
        with self._swapped(forward), forward_ad.dual_level(), _Rectifying():
            logits, moved = forward_ad.unpack_dual(self.model(x))
            # how the cross-entropy moves with the logits
            truth = _probabilities(labels, logits)
            change = ((logits.softmax(1) * truth.sum(1, keepdim=True) - truth) * moved).sum() / self.group
            (derivative,) = torch.autograd.grad(change, x)
        return derivative

    def _collect(self, calls: list[_Call]) -> dict[str, Tensor]:
        found: dict[str, Tensor] = {}
        for call in calls:
            for name, gradient in zip(call.parameters, call.found, strict=True):
                found[name] = found[name] + gradient if name in found else gradient
        return found

    @contextmanager
    def _swapped(self, forward: Any) -> Iterator[None]:
        """Let every layer with parameters compute in the engine's way for the length of a block."""
        modules = {path: self.model.get_submodule(path) for path in self.kinds}
        for path, module in modules.items():
            module.forward = partial(forward, module, path)
        try:
            yield
        finally:
            for module in modules.values():
                del module.forward


def _probabilities(labels: Tensor, logits: Tensor) -> Tensor:
    return labels if labels.is_floating_point() else F.one_hot(labels, logits.shape[1]).to(logits.dtype)


def _owns(module: nn.Module) -> bool:
    return any(True for _ in module.parameters(recurse=False))


def _parameter_names(path: str, module: nn.Module) -> tuple[str, ...]:
    return tuple(f"{path}.{name}" if path else name for name, _ in module.named_parameters(recurse=False))


def _layer_for(module: nn.Module) -> type[Layer]:
    for kind in LAYERS:
        if kind.fits(module):
            return kind
    raise Unsupported(type(module).__name__)
