"""Distances between gradients, for many problems at once, with their derivatives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from glasshouse.devices import CPU
from glasshouse.functional.gradients import SMALL, cosine_distance, squared_distance

PIECE = 1 << 16  # values of a dot product


class Objective(ABC):
    """A distance between gradients, problem by problem, with its derivative by the first.

    Gradients come as tensors (problems, ...), one for each parameter or for many of them side by side.
    """

    @staticmethod
    @abstractmethod
    def plain(first: Sequence[Tensor], second: Sequence[Tensor]) -> Tensor:
        """The distance of one problem, for autograd to derive."""

    @abstractmethod
    def __call__(self, found: Sequence[Tensor], target: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """Distances (problems,) and their derivatives by ``found``, which may be overwritten by them."""


class Cosine(Objective):
    """One minus the cosine of the angle between all gradients taken jointly (InvGrad)."""

    plain = staticmethod(cosine_distance)

    def __call__(self, found: Sequence[Tensor], target: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """Distances and derivatives; gradients whose squares would vanish are scaled up first."""
        products = _products(found, target)
        if float(products[:2].amin()) >= SMALL**2:
            return self._distances(found, target, products)
        scales = [_largest(side).reciprocal() for side in (found, target)]
        sides = [[one * _like(scale, one) for one in side] for scale, side in zip(scales, (found, target), strict=True)]
        values, pulls = self._distances(sides[0], sides[1], _products(*sides))
        return values, [one * _like(scales[0], one) for one in pulls]

    @staticmethod
    def _distances(found: Sequence[Tensor], target: Sequence[Tensor], products: Tensor) -> tuple[Tensor, list[Tensor]]:
        own, other, dot = products
        tiny = torch.finfo(dot.dtype).tiny
        norms = (own.sqrt() * other.sqrt()).clamp_min(tiny)
        cosine = dot / norms
        along, towards = cosine / own.clamp_min(tiny), -1 / norms
        pulls = [a.mul_(_like(along, a)).addcmul_(b, _like(towards, b)) for a, b in zip(found, target, strict=True)]
        return 1 - cosine, pulls


class Squared(Objective):
    """Sum of squared differences (DLG)."""

    plain = staticmethod(squared_distance)

    def __call__(self, found: Sequence[Tensor], target: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """Distances and derivatives."""
        differences = [a - b for a, b in zip(found, target, strict=True)]
        squares = [one.flatten(1).square().sum(1) for one in differences]
        return torch.stack(squares).sum(0), [2 * one for one in differences]


def _products(first: Sequence[Tensor], second: Sequence[Tensor]) -> Tensor:
    """Of every problem <a, a>, <b, b> and <a, b>, (3, problems).

    In pieces, so that no tensor of products is made, no sum loses digits, and memory is read once for all three.
    """
    sums = [_dots(a.flatten(1), b.flatten(1)) for a, b in zip(first, second, strict=True)]
    return torch.stack(sums).sum(0).T


def _dots(first: Tensor, second: Tensor) -> Tensor:
    if first.device != CPU:  # beginning thousands of small products takes longer there than multiplying
        pairs = (first, first), (second, second), (first, second)
        return torch.cat([(a[:, None] @ b[:, :, None])[:, 0] for a, b in pairs], 1)
    rows = [zip(a.split(PIECE), b.split(PIECE), strict=True) for a, b in zip(first, second, strict=True)]
    dots = [torch.dot(*two) for pieces in rows for a, b in pieces for two in ((a, a), (b, b), (a, b))]
    return torch.stack(dots).view(len(first), -1, 3).sum(1)


def _largest(tensors: Sequence[Tensor]) -> Tensor:
    """The largest entry of each problem, one where all are zero: (problems,)."""
    largest = torch.stack([one.flatten(1).abs().amax(1) for one in tensors]).amax(0)
    return torch.where(largest > 0, largest, torch.ones_like(largest))


def _like(values: Tensor, tensor: Tensor) -> Tensor:
    return values.view(-1, *(1,) * (tensor.ndim - 1))
