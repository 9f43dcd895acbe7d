"""Operations without parameters that the engine computes by hand, because they are everywhere."""

from __future__ import annotations

import operator
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glasshouse.attacks.engine.nodes import Node, Parts, Unsupported


class Rectifier(Node):
    """ReLU: passes all on where its output is above zero."""

    overwrites = False  # whether its input and tangent are its alone

    def forward(self, x: Tensor) -> Tensor:
        """The output."""
        self.y = x.relu_() if self.overwrites else x.relu()
        return self.y

    def back(self, d: Tensor) -> Parts:
        """Where the output is above zero."""
        return (torch.ops.aten.threshold_backward(d, self.y, 0),)

    def tangent(self, t: Tensor | None) -> Tensor | None:
        """Where the output is above zero."""
        if t is None:
            return None
        into = t if self.overwrites else torch.empty_like(t)
        torch.ops.aten.threshold_backward.grad_input(t, self.y, 0, grad_input=into)
        return into

    def tangent_back(self, d: Tensor) -> Parts:
        """As the way back, because its slope has no slope."""
        return self.back(d)


class Smooth(Node):
    """A smooth function of each value, whose slopes follow from its output."""

    def forward(self, x: Tensor) -> Tensor:
        """The output."""
        self.y = self.value(x)
        self.t: Tensor | None = None
        return self.y

    def back(self, d: Tensor) -> Parts:
        """Through the slope."""
        self.d = d
        self.slope = self.first(self.y)
        return (d * self.slope,)

    def tangent(self, t: Tensor | None) -> Tensor | None:
        """Through the slope."""
        self.t = t
        return None if t is None else t * self.slope

    def tangent_back(self, d: Tensor) -> Parts:
        """Through the slope, and through the slope of the slope where tangent and gradient met."""
        if self.t is None:
            return (d * self.first(self.y),)
        return ((self.t * self.d).mul_(self.second(self.y, self.slope)).addcmul_(d, self.slope),)

    @staticmethod
    @abstractmethod
    def value(x: Tensor) -> Tensor:
        """The function."""

    @staticmethod
    @abstractmethod
    def first(y: Tensor) -> Tensor:
        """Its slope."""

    @staticmethod
    @abstractmethod
    def second(y: Tensor, slope: Tensor) -> Tensor:
        """The slope of its slope."""


class Sigmoid(Smooth):
    """1 / (1 + exp(-x))."""

    @staticmethod
    def value(x: Tensor) -> Tensor:
        """The function."""
        return torch.sigmoid(x)

    @staticmethod
    def first(y: Tensor) -> Tensor:
        """The slope y (1 - y)."""
        return y.addcmul(y, y, value=-1)

    @staticmethod
    def second(y: Tensor, slope: Tensor) -> Tensor:
        """The slope's slope y (1 - y) (1 - 2 y)."""
        return slope.addcmul(slope, y, value=-2)


class Tanh(Smooth):
    """The hyperbolic tangent."""

    @staticmethod
    def value(x: Tensor) -> Tensor:
        """The function."""
        return torch.tanh(x)

    @staticmethod
    def first(y: Tensor) -> Tensor:
        """The slope 1 - y^2."""
        return 1 - y * y

    @staticmethod
    def second(y: Tensor, slope: Tensor) -> Tensor:
        """The slope's slope -2 y (1 - y^2)."""
        return -2 * y * slope


class Sum(Node):
    """Two tensors of one shape, added."""

    fresh = True
    overwrites = False  # whether the first input and its tangent are its alone

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        """The output."""
        if first.shape != second.shape:
            raise Unsupported("a sum of different shapes")
        return first.add_(second) if self.overwrites else first + second

    def back(self, d: Tensor) -> Parts:
        """The same to both."""
        return d, d

    def tangent(self, first: Tensor | None, second: Tensor | None) -> Tensor | None:
        """The sum of what moves."""
        if first is not None and second is not None:
            return first.add_(second) if self.overwrites else first + second
        alone = second if first is None else first
        return None if alone is None else alone.clone()

    def tangent_back(self, d: Tensor) -> Parts:
        """The same to both."""
        return d, d


class LinearMap(Node):
    """A function f with f(a + b) = f(a) + f(b): reshaping, average pooling."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        """The output, with a graph for the way back."""
        self.x = x.detach().requires_grad_()
        with torch.enable_grad():
            self.y = self.function(self.x)
        return self.y.detach()

    def back(self, d: Tensor) -> Parts:
        """The transposed map."""
        return torch.autograd.grad(self.y, self.x, d, retain_graph=True)

    def tangent(self, t: Tensor | None) -> Tensor | None:
        """The map itself."""
        return None if t is None else self.function(t)

    def tangent_back(self, d: Tensor) -> Parts:
        """The transposed map."""
        return self.back(d)


class MaxPool(Node):
    """The largest value of each window: a choice of values, so linear once the choice is made."""

    def __init__(self, module: nn.MaxPool2d) -> None:
        if module.return_indices:
            raise Unsupported("pooling that returns indices")
        self.window = (module.kernel_size, module.stride, module.padding, module.dilation, module.ceil_mode)

    def forward(self, x: Tensor) -> Tensor:
        """The output; keeps where each value came from."""
        self.x = x
        y: Tensor
        y, self.chosen = torch.ops.aten.max_pool2d_with_indices(x, *(_pair(one) for one in self.window))
        return y

    def back(self, d: Tensor) -> Parts:
        """To the chosen places."""
        window = (_pair(one) for one in self.window)
        return (torch.ops.aten.max_pool2d_with_indices_backward(d, self.x, *window, self.chosen),)

    def tangent(self, t: Tensor | None) -> Tensor | None:
        """From the chosen places."""
        return None if t is None else t.flatten(2).gather(2, self.chosen.flatten(2)).view_as(self.chosen)

    def tangent_back(self, d: Tensor) -> Parts:
        """To the chosen places."""
        return self.back(d)


def _pair(value: int | bool | tuple[int, int]) -> Any:
    return [value, value] if type(value) is int else value


#: By the type of a module, which is passed.
MODULES: dict[type[nn.Module], Callable[[Any], Node]] = {
    nn.ReLU: lambda _: Rectifier(),
    nn.Sigmoid: lambda _: Sigmoid(),
    nn.Tanh: lambda _: Tanh(),
    nn.MaxPool2d: MaxPool,
    **dict.fromkeys((nn.AdaptiveAvgPool2d, nn.AvgPool2d, nn.Flatten), LinearMap),
}

#: Linear in their first argument, by function or method name; the others are numbers.
LINEAR: frozenset[Any] = frozenset(
    {torch.flatten, "flatten", "view", "reshape", torch.mean, "mean", F.avg_pool2d, F.adaptive_avg_pool2d}
)

#: By function or method name; for calls whose arguments are all computed from the images.
FUNCTIONS: dict[Any, type[Node]] = {
    **dict.fromkeys((F.relu, torch.relu, "relu"), Rectifier),
    **dict.fromkeys((F.sigmoid, torch.sigmoid, "sigmoid"), Sigmoid),
    **dict.fromkeys((F.tanh, torch.tanh, "tanh"), Tanh),
    **dict.fromkeys((operator.add, operator.iadd, torch.add, "add"), Sum),
}
