"""A convolution and the batch norm behind it, as one convolution where that takes fewer passes over many values."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from glasshouse.attacks.engine.convolution import ConvLayer
from glasshouse.attacks.engine.layers import BatchNormLayer, Layer
from glasshouse.attacks.engine.nodes import Parts


class FoldedLayer(Layer):
    """A convolution (W, c) and batch norm (gamma, beta) in eval mode, as one convolution (s W, s (c - m) + beta).

    Here m is the running mean and s = gamma / sqrt(variance + eps). By the chain rule a gradient by the weights and the
    bias of the one becomes gradients by all parameters of the two, and a direction of these one of the other.

    Folding saves passes over the output and costs passes over the weights of every problem: where a layer has fewer
    places than its kernel has values, the two are computed one after the other instead.
    """

    fresh = True

    def __init__(self, conv: ConvLayer, norm: BatchNormLayer) -> None:
        self.parameters = conv.parameters + norm.parameters
        self.group, self.moves = conv.group, conv.moves
        self.conv, self.norm, self.scale = conv, norm, norm.scale
        self.slope = norm.slope.flatten()
        self.centre = -norm.mean if conv.bias is None else conv.bias - norm.mean
        self.weight = conv.matrix
        folded = conv.weight * norm.slope[:, None], norm.bias + self.slope * self.centre
        self.held = {False: (conv.weight, conv.bias), True: folded}  # by whether it folds
        self.folds = False

    @property
    def kept(self) -> int:
        """What the convolution keeps, and the direction of its weights or its output."""
        return self.conv.kept + (self.weight.nbytes if self.folds else self.norm.x.nbytes)

    @staticmethod
    def fits(module: nn.Module) -> bool:
        """No module by itself: it stands for two."""
        return False

    def pack(self, gradients: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Weights as matrices."""
        *own, gamma, beta = gradients
        return (*self.conv.pack(own), gamma, beta)

    def forward(self, x: Tensor) -> Tensor:
        """The output."""
        folds = self.group * self.conv.places(x) >= self.weight.shape[1]
        if folds != self.folds:
            self.folds = folds
            self.conv.hold(*self.held[folds])
        y = self.conv.forward(x)
        return y if folds else self.norm.forward(y)

    def back(self, d: Tensor) -> Parts:
        """The gradients by weights and bias of the one convolution, and from them those by all parameters."""
        if not self.folds:
            self.conv.gradients, self.norm.gradients = self.gradients[:-2], self.gradients[-2:]
            return self.conv.back(*self.norm.back(d))
        given = self._given(self.gradients, len(d) // self.group)
        if given is None:
            self.conv.gradients = (None, None)
            return self.conv.back(d)
        weight, *bias, gamma, beta = given
        self.conv.gradients = (weight, beta)
        into = self.conv.back(d)
        torch.mul((weight * self.weight).sum(1).addcmul_(beta, self.centre), self.scale, out=gamma)
        weight.mul_(self.slope)
        for own in bias:
            torch.mul(beta, self.slope, out=own)
        return into

    def tangent(self, t: Tensor | None) -> Tensor | None:
        """Of the one convolution, whose weights and bias move with all parameters."""
        if not self.folds:
            self.conv.direction, self.norm.direction = self.direction[:-2], self.direction[-2:]
            return self.norm.tangent(self.conv.tangent(t))
        given = self._given(self.direction, len(self.conv.d) // self.group)
        if given is None:
            self.conv.direction = (None, None)
            return self.conv.tangent(t)
        weight, *bias, gamma, beta = given
        slope = gamma * self.scale  # how s moves
        moved = beta.addcmul(slope, self.centre)
        for own in bias:
            moved.addcmul_(own, self.slope)
        self.conv.direction = ((weight * self.slope).addcmul_(self.weight, slope[:, None]), moved)
        return self.conv.tangent(t)

    def tangent_back(self, d: Tensor) -> Parts:
        """Of the one convolution."""
        return self.conv.tangent_back(d) if self.folds else self.conv.tangent_back(*self.norm.tangent_back(d))

    def _given(self, parts: Parts, problems: int) -> list[Tensor] | None:
        """Tensors for all parameters: zeros for those that the attacker did not see, None if he saw none."""
        if all(part is None for part in parts):
            return None
        shapes = [self.weight.shape[1:], *(self.slope.shape,) * (len(parts) - 1)]
        return [
            self.slope.new_zeros(problems, *shape) if part is None else part
            for part, shape in zip(parts, shapes, strict=True)
        ]
