"""Operations with parameters: how each computes, per problem, a gradient, a tangent and their way back."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm

from glasshouse.attacks.engine.nodes import Node, Operation, Parts, Unsupported


class Layer(Node):
    """One call of a module with parameters.

    ``parameters`` are their names in the model. Gradients and directions come as one tensor (problems, ...) per
    parameter, in the layout of ``pack``; None stands for one that the attacker did not see.
    """

    def __init__(self, module: nn.Module, path: str, group: int) -> None:
        self.parameters = tuple(f"{path}.{name}" if path else name for name, _ in module.named_parameters())
        self.group = group
        self.gradients: Parts = ()
        self.direction: Parts = ()

    @property
    def kept(self) -> int:
        """Bytes that it keeps beside its output."""
        return 0

    @staticmethod
    @abstractmethod
    def fits(module: nn.Module) -> bool:
        """Whether this class can stand in for a module."""

    def pack(self, gradients: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Gradients (problems, *parameter.shape) in the layout that this layer computes in."""
        return tuple(gradients)

    def by_problem(self, images: Tensor) -> Tensor:
        """(images, ...) as (problems, images of each, ...)."""
        return images.view(-1, self.group, *images.shape[1:])

    def per_image(self, per_problem: Tensor) -> Tensor:
        """Repeat each problem's tensor for its images."""
        return per_problem if self.group == 1 else per_problem.repeat_interleave(self.group, 0)


class LinearLayer(Layer):
    """A fully connected layer on (N, features)."""

    def __init__(self, module: nn.Linear, path: str, group: int) -> None:
        super().__init__(module, path, group)
        self.weight = module.weight.detach()
        self.bias = None if module.bias is None else module.bias.detach()

    @staticmethod
    def fits(module: nn.Module) -> bool:
        """Plain linear layers."""
        return type(module) is nn.Linear

    def forward(self, x: Tensor) -> Tensor:
        """The output."""
        if x.ndim != 2:
            raise Unsupported("linear layers of vectors only")
        self.x = self.by_problem(x)
        return F.linear(x, self.weight, self.bias)

    def back(self, d: Tensor) -> Parts:
        """Outer products of output gradient and input; the gradient by the input through the weights."""
        self.d = self.by_problem(d)
        weight, *bias = self.gradients
        if weight is not None:
            torch.bmm(self.d.transpose(1, 2), self.x, out=weight)
        for own in bias:
            _store(own, self.d.sum(1))
        return (d @ self.weight if self.moves else None,)

    def tangent(self, t: Tensor | None) -> Tensor | None:
        """The moved weights on the input, and the weights on the moved input."""
        moved = None if t is None else self.by_problem(t @ self.weight.T)
        weight, *bias = self.direction
        if weight is not None:
            through = weight.transpose(1, 2)
            moved = self.x @ through if moved is None else moved.baddbmm_(self.x, through)
        for own in bias:
            moved = _plus(moved, own, self.d.shape)
        return None if moved is None else moved.flatten(0, 1)

    def tangent_back(self, d: Tensor) -> Parts:
        """Through the weights, and through the moved weights."""
        found = d @ self.weight
        if self.direction[0] is not None:
            found = self.by_problem(found).baddbmm_(self.d, self.direction[0]).flatten(0, 1)
        return (found,)


class BatchNormLayer(Layer):
    """Batch norm in eval mode: an affine map of each channel."""

    fresh = True

    def __init__(self, module: _BatchNorm, path: str, group: int) -> None:
        super().__init__(module, path, group)
        if module.running_mean is None or module.running_var is None:
            raise Unsupported("batch norm without running statistics")
        self.mean = module.running_mean
        self.scale = (module.running_var + module.eps).rsqrt()
        self.slope = (module.weight.detach() * self.scale)[:, None, None]
        self.bias = module.bias.detach()
        self.offset = self.bias[:, None, None] - self.slope * self.mean[:, None, None]

    @staticmethod
    def fits(module: nn.Module) -> bool:
        """Affine batch norm of images that normalizes with running statistics."""
        return type(module) is nn.BatchNorm2d and module.affine and module.track_running_stats and not module.training

    def forward(self, x: Tensor) -> Tensor:
        """The output."""
        self.x = x
        return torch.addcmul(self.offset, x, self.slope)

    def back(self, d: Tensor) -> tuple[Tensor]:
        """By weight and bias; the gradient by the input through the slope."""
        self.d = d
        weight, bias = self.gradients
        if weight is not None or bias is not None:
            total = self.by_problem(d.sum((2, 3))).sum(1)
            matched = self.by_problem((d * self.x).sum((2, 3))).sum(1)
            _store(weight, (matched - total * self.mean) * self.scale)
            _store(bias, total)
        return (d * self.slope,)

    def tangent(self, t: Tensor | None) -> Tensor | None:
        """The moved affine map on the input, and the map on the moved input."""
        slope, offset = self._moved()
        if slope is not None:
            moved = torch.addcmul(offset, self.x, slope)
            return moved if t is None else moved.addcmul_(t, self.slope)
        return offset + torch.zeros_like(self.x) if t is None else torch.addcmul(offset, t, self.slope)

    def tangent_back(self, d: Tensor) -> tuple[Tensor]:
        """Through the slope, and through the moved slope."""
        found = d * self.slope
        slope, _ = self._moved()
        return (found if slope is None else found.addcmul_(self.d, slope),)

    def _moved(self) -> tuple[Tensor | None, Tensor]:
        """How slope and offset of the map move, (N, C, 1, 1)."""
        weight, bias = (None if one is None else self.per_image(one) for one in self.direction)
        offset = torch.zeros_like(self.mean)[None] if bias is None else bias
        if weight is None:
            return None, offset[:, :, None, None]
        slope = weight * self.scale
        return slope[:, :, None, None], offset.addcmul(slope, self.mean, value=-1)[:, :, None, None]


class ModuleLayer(Layer):
    """Any other module, by autograd over a copy of its parameters for every problem."""

    def __init__(self, module: nn.Module, path: str, group: int) -> None:
        super().__init__(module, path, group)
        self.own = {name: parameter.detach() for name, parameter in module.named_parameters()}
        self.operation = Operation(_for_all_problems(module, tuple(self.own)))

    @staticmethod
    def fits(module: nn.Module) -> bool:
        """All of them; what cannot be mapped over problems fails when it is tried."""
        return True

    def forward(self, x: Tensor) -> Any:
        """The output, with its graph."""
        self.x = self.by_problem(x)
        if len(self.x) == 1:  # then group norm asks whether channels are innermost, which vmap cannot answer
            self.x = self.x.contiguous()
        copies = [own.expand(len(self.x), *own.shape) for own in self.own.values()]
        return self.operation.forward(self.x, *copies).flatten(0, 1)

    def back(self, d: Tensor) -> Parts:
        """By autograd, with a graph."""
        into, *gradients = self.operation.back(self.by_problem(d))
        for place, gradient in zip(self.gradients, gradients, strict=True):
            _store(place, 0 if gradient is None else gradient)
        return (None if into is None else into.flatten(0, 1),)

    def tangent(self, t: Tensor | None) -> Tensor | None:
        """Backward of backward."""
        moved = self.operation.tangent(None if t is None else self.by_problem(t), *self.direction)
        return None if moved is None else moved.flatten(0, 1)

    def tangent_back(self, d: Tensor) -> Parts:
        """Backward of backward."""
        into = self.operation.tangent_back(self.by_problem(d))[0]
        return (None if into is None else into.flatten(0, 1),)


def _for_all_problems(module: nn.Module, names: tuple[str, ...]) -> Callable[..., Tensor]:
    """A module as a function of inputs (problems, images, ...) and parameters (problems, ...)."""

    def one(x: Tensor, *parameters: Tensor) -> Tensor:
        return cast(Tensor, functional_call(module, dict(zip(names, parameters, strict=True)), (x,)))

    mapped: Callable[..., Tensor] = torch.vmap(one)
    return mapped


def _store(place: Tensor | None, value: Tensor | int) -> None:
    """Write a gradient where it is wanted."""
    if place is not None:
        place.copy_(value) if isinstance(value, Tensor) else place.fill_(value)


def _plus(moved: Tensor | None, bias: Tensor | None, shape: Sequence[int]) -> Tensor | None:
    """Tangents (problems, places, outputs) and how the bias (problems, outputs) of each problem moves."""
    if bias is None:
        return moved
    return bias[:, None].expand(*shape).contiguous() if moved is None else moved.add_(bias[:, None])
