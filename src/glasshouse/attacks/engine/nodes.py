"""What the engine sends two sweeps through: one node per operation of a network.

For images x, weights W and gradients g(x) of the loss by W, the derivative of an objective F(g(x)) by x is the
derivative by x of <V, g(x)> with V = dF/dg held fixed, and <V, g(x)> is how the loss moves when the weights move
along V. So a first sweep gives outputs on its way forward and g on its way back; a second one carries tangents
forward, how each output moves with the weights, and the derivative of the moving loss back. No graph of a graph.

A problem is one shared gradient to be matched, behind which lie ``group`` images; a batch holds the images of
several problems in a row. All problems share the weights W, each has its own direction V.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

#: What goes to the inputs of a node: None where nothing arrives.
Parts = tuple[Tensor | None, ...]


class Unsupported(Exception):  # noqa: N818 - no error of the user's: another way of computing takes over
    """The engine cannot compute with a part of a model."""


class Node(ABC):
    """One operation, and what it keeps from one pass to the next; all four passes run without autograd."""

    fresh = False  # whether outputs and tangents are new memory that the node itself does not look at again
    moves = True  # whether parameters lie before it, so that tangents arrive and gradients are awaited

    @abstractmethod
    def forward(self, *inputs: Any) -> Any:
        """The output."""

    @abstractmethod
    def back(self, d: Tensor) -> Parts:
        """The gradient by each input, given the one by the output."""

    @abstractmethod
    def tangent(self, *tangents: Any) -> Tensor | None:
        """How the output moves when inputs move by ``tangents`` and weights in a direction; None for not at all."""

    @abstractmethod
    def tangent_back(self, d: Tensor) -> Parts:
        """The derivative of the moving loss by each input; ``d`` is its derivative by the output."""


class Operation(Node):
    """Any operation without parameters, by autograd: what no other node knows."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def forward(self, *inputs: Any) -> Any:
        """The output, with its graph; what is not a tensor passes as it is."""
        self.inputs = tuple(_leaf(one) if _derivable(one) else one for one in inputs)
        self.slopes: Parts = (None,) * len(inputs)
        self.pull: Tensor | None = None
        with torch.enable_grad():
            self.y = self.function(*self.inputs)
        if isinstance(self.y, tuple | list) and not isinstance(self.y, torch.Size):
            raise Unsupported("an operation with several outputs")
        return self.y.detach() if isinstance(self.y, Tensor) else self.y

    def back(self, d: Tensor) -> Parts:
        """By autograd, with a graph, because the tangents need the slopes again."""
        with torch.enable_grad():
            self.d = _leaf(d)
            self.slopes = self._derive([self.y], [self.d], create_graph=True)
        return tuple(None if one is None else one.detach() for one in self.slopes)

    def tangent(self, *tangents: Tensor | None) -> Tensor | None:
        """Backward of backward: the gradient is linear in ``d``, and its transpose is the tangent."""
        pairs = [(a, b) for a, b in zip(self.slopes, tangents, strict=True) if a is not None and b is not None]
        if not pairs:
            return None
        with torch.enable_grad():
            self.pull = torch.stack([(slope * moved).sum() for slope, moved in pairs]).sum()
            return torch.autograd.grad(self.pull, self.d, retain_graph=True)[0]

    def tangent_back(self, d: Tensor) -> Parts:
        """Of the output times ``d``, and of the tangent times what arrived in the first sweep."""
        if self.pull is None or not self.pull.requires_grad:
            return self._derive([self.y], [d])
        return self._derive([self.y, self.pull], [d, torch.ones_like(self.pull)])

    def _derive(self, outputs: list[Tensor], along: list[Tensor], *, create_graph: bool = False) -> Parts:
        wanted = [one for one in self.inputs if _derivable(one)]
        found = torch.autograd.grad(
            outputs, wanted, along, create_graph=create_graph, retain_graph=True, allow_unused=True
        )
        each = iter(found)
        return tuple(next(each) if _derivable(one) else None for one in self.inputs)


def _derivable(value: object) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()


def _leaf(x: Tensor) -> Tensor:
    return x.detach().requires_grad_()
