"""What the engine knows about layers: how each computes, per problem, a gradient, a tangent and their way back.

A problem is one shared gradient to be matched, behind which lie ``group`` images; a batch holds the images of
several problems in a row. All problems share the weights W of the network. Two sweeps go through a layer:

- the first computes the output, then on the way back the gradient of each problem's loss by the weights;
- the second moves the weights of each problem in a direction V of its own, carries the tangent of the output
  forward, and on the way back the derivative of that tangent by the input.

Per-problem products are matrix products over unfolded inputs, which beat grouped convolutions on a CPU.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm

Parts = tuple[Tensor, ...]


class Unsupported(Exception):  # noqa: N818 - no error of the user's: another matcher takes over
    """The engine cannot compute with a layer."""


class Layer(ABC):
    """One call of a layer with parameters, and what it keeps between the two sweeps.

    Gradients and directions come as one tensor (problems, ...) per parameter, in the layout of ``pack``.
    """

    def __init__(self, module: Any, group: int) -> None:
        self.group = group

    @staticmethod
    @abstractmethod
    def fits(module: nn.Module) -> bool:
        """Whether this class can stand in for a module."""

    @abstractmethod
    def pack(self, gradients: Parts) -> Parts:
        """Gradients (problems, *parameter.shape) in the layout that this layer computes in."""

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """The output; keeps what the gradient needs."""

    @abstractmethod
    def gradients(self, d: Tensor) -> Parts:
        """Gradients by the parameters, given the gradient by the output; keeps what the second sweep needs."""

    @abstractmethod
    def back(self, d: Tensor) -> Tensor:
        """The gradient by the input."""

    @abstractmethod
    def tangent(self, t: Tensor | None, direction: Parts) -> Tensor:
        """How the output moves when the input moves by ``t`` and the weights in a direction."""

    @abstractmethod
    def tangent_back(self, d: Tensor | None, direction: Parts) -> Tensor:
        """The derivative of that movement by the input; ``d`` is what arrives at the output itself."""

    def per_problem(self, per_image: Tensor) -> Tensor:
        """Sum over the images of each problem."""
        return per_image if self.group == 1 else per_image.unflatten(0, (-1, self.group)).sum(1)

    def per_image(self, per_problem: Tensor) -> Tensor:
        """Repeat each problem's tensor for its images."""
        return per_problem if self.group == 1 else per_problem.repeat_interleave(self.group, 0)


class LinearLayer(Layer):
    """A fully connected layer on (N, features)."""

    def __init__(self, module: nn.Linear, group: int) -> None:
        super().__init__(module, group)
        self.weight = module.weight.detach()
        self.bias = None if module.bias is None else module.bias.detach()

    @staticmethod
    def fits(module: nn.Module) -> bool:
        """Plain linear layers."""
        return type(module) is nn.Linear

    def pack(self, gradients: Parts) -> Parts:
        """As they are."""
        return gradients

    def forward(self, x: Tensor) -> Tensor:
        """The output."""
        if x.ndim != 2:
            raise Unsupported("linear layers of vectors only")
        self.x = x
        return F.linear(x, self.weight, self.bias)

    def gradients(self, d: Tensor) -> Parts:
        """Outer products of output gradient and input."""
        self.d = d
        inputs, outputs = (one.unflatten(0, (-1, self.group)) for one in (self.x, d))
        weight = outputs.transpose(1, 2) @ inputs
        return (weight,) if self.bias is None else (weight, outputs.sum(1))

    def back(self, d: Tensor) -> Tensor:
        """Through the weights."""
        return d @ self.weight

    def tangent(self, t: Tensor | None, direction: Parts) -> Tensor:
        """The moved weights times the input, and the weights times the moved input."""
        inputs = self.x.unflatten(0, (-1, self.group))
        moved: Tensor = inputs @ direction[0].transpose(1, 2)
        if self.bias is not None:
            moved = moved + direction[1][:, None]
        moved = moved.flatten(0, 1)
        return moved if t is None else moved + t @ self.weight.T

    def tangent_back(self, d: Tensor | None, direction: Parts) -> Tensor:
        """Through the moved weights, and through the weights themselves."""
        found: Tensor = (self.d.unflatten(0, (-1, self.group)) @ direction[0]).flatten(0, 1)
        return found if d is None else found + d @ self.weight


class ConvLayer(Layer):
    """A convolution on (N, C, H, W), laid out channels last; matrices are (kernel row, kernel column, C) by O."""

    def __init__(self, module: nn.Conv2d, group: int) -> None:
        super().__init__(module, group)
        weight = module.weight.detach()
        self.outputs, self.inputs, self.high, self.wide = weight.shape
        self.stride, self.padding = int(module.stride[0]), int(module.padding[0])
        self.weight = weight.contiguous(memory_format=torch.channels_last)
        self.bias = None if module.bias is None else module.bias.detach()
        # with stride 1 the way back is itself a convolution, with mirrored weights
        self.mirrored = weight.transpose(0, 1).flip(2, 3).contiguous(memory_format=torch.channels_last)

    @staticmethod
    def fits(module: nn.Module) -> bool:
        """Square strides and zero padding, neither groups nor dilation."""
        return (
            type(module) is nn.Conv2d
            and module.groups == 1
            and module.dilation == (1, 1)
            and module.padding_mode == "zeros"
            and not isinstance(module.padding, str)
            and len(set(module.stride)) == 1
            and len(set(module.padding)) == 1
            and len(set(module.kernel_size)) == 1
            and module.padding[0] < module.kernel_size[0]
        )

    def pack(self, gradients: Parts) -> Parts:
        """Weights as matrices."""
        weight, *rest = gradients
        matrix = weight.permute(0, 3, 4, 2, 1).reshape(len(weight), -1, self.outputs).contiguous()
        return (matrix, *rest)

    def forward(self, x: Tensor) -> Tensor:
        """The output; keeps the unfolded input."""
        self.size = x.shape[2:]
        self.rows = unfold_rows(nhwc(x), self.high, self.stride, self.padding)
        y = F.conv2d(x, self.weight, self.bias, self.stride, self.padding)
        self.out = y.shape[2:]
        return y

    def gradients(self, d: Tensor) -> Parts:
        """Unfolded input times output gradient."""
        self.d = nhwc(d)
        flat = self.d.reshape(len(d), -1, self.outputs)
        weight = flat.new_empty(len(flat), self.high * self.wide * self.inputs, self.outputs)
        parts = self._slices(self.rows)
        for part, place in zip(parts, weight.chunk(len(parts), 1), strict=True):
            torch.bmm(part.transpose(1, 2), flat, out=place)
        found = self.per_problem(weight)
        return (found,) if self.bias is None else (found, self.per_problem(flat.sum(1)))

    def back(self, d: Tensor) -> Tensor:
        """Through the weights."""
        if self.stride == 1:
            return F.conv2d(d, self.mirrored, None, 1, self.high - 1 - self.padding)
        extra = [
            size - ((out - 1) * self.stride - 2 * self.padding + self.high)
            for size, out in zip(self.size, self.out, strict=True)
        ]
        return F.conv_transpose2d(d, self.weight, None, self.stride, self.padding, extra)

    def tangent(self, t: Tensor | None, direction: Parts) -> Tensor:
        """The moved weights on the input, and the weights on the moved input."""
        matrix = self.per_image(direction[0])
        count = len(matrix)
        if t is None:
            moved = matrix.new_zeros(count, self.out[0] * self.out[1], self.outputs)
        else:
            moved = nhwc(F.conv2d(t, self.weight, None, self.stride, self.padding)).reshape(count, -1, self.outputs)
        if self.bias is not None:
            moved = moved.add_(self.per_image(direction[1])[:, None])
        parts = self._slices(self.rows)
        for part, weight in zip(parts, matrix.chunk(len(parts), 1), strict=True):
            moved.baddbmm_(part, weight)
        return nchw(moved.view(count, *self.out, self.outputs))

    def tangent_back(self, d: Tensor | None, direction: Parts) -> Tensor:
        """Through the moved weights, and through the weights themselves."""
        matrix = self.per_image(direction[0])
        found = None if d is None else nhwc(self.back(d))
        if self.stride > 1:
            moved = self._scattered(self.d.flatten(1, 2) @ matrix.transpose(1, 2))
            return nchw(moved if found is None else moved + found)
        shape = (len(matrix), *self.size, self.inputs)
        flat = matrix.new_zeros(shape) if found is None else found.contiguous()
        flat = flat.view(len(matrix), -1, self.inputs)
        rows = unfold_rows(self.d, self.high, 1, self.high - 1 - self.padding)
        mirrored = matrix.view(-1, self.high, self.wide, self.inputs, self.outputs).flip(1, 2).transpose(3, 4)
        mirrored = mirrored.reshape(len(matrix), self.high, self.wide * self.outputs, self.inputs)
        for number, part in enumerate(self._slices(rows, self.size)):
            flat.baddbmm_(part, mirrored[:, number])
        return nchw(flat.view(shape))

    def _slices(self, rows: Tensor, out: torch.Size | None = None) -> list[Tensor]:
        """The unfolded input (N, places, values), one kernel row after another."""
        high, wide = self.out if out is None else out
        if rows.ndim == 3:
            return [rows]
        return [rows[:, row : row + high].reshape(len(rows), high * wide, -1) for row in range(self.high)]

    def _scattered(self, unfolded: Tensor) -> Tensor:
        """Unfolded values (N, places, kernel values) added up where they came from."""
        pieces = unfolded.view(len(unfolded), *self.out, self.high, self.wide, self.inputs)
        height, width = self.size
        edge = self.high  # room for kernels that reach over the edge
        whole = unfolded.new_zeros(len(unfolded), height + 2 * edge, width + 2 * edge, self.inputs)
        start, (down, across) = edge - self.padding, self.out
        for row in range(self.high):
            for column in range(self.wide):
                top, left = start + row, start + column
                place = whole[
                    :, top : top + down * self.stride : self.stride, left : left + across * self.stride : self.stride
                ]
                place += pieces[:, :, :, row, column]
        return whole[:, edge : edge + height, edge : edge + width]


class BatchNormLayer(Layer):
    """Batch norm in eval mode: an affine map of each channel."""

    def __init__(self, module: _BatchNorm, group: int) -> None:
        super().__init__(module, group)
        if module.running_mean is None or module.running_var is None:
            raise Unsupported("batch norm without running statistics")
        self.mean = module.running_mean[:, None, None]
        self.scale = (module.running_var + module.eps).rsqrt()[:, None, None]
        self.slope = module.weight.detach()[:, None, None] * self.scale
        self.offset = module.bias.detach()[:, None, None] - self.slope * self.mean

    @staticmethod
    def fits(module: nn.Module) -> bool:
        """Affine batch norm of images that normalizes with running statistics."""
        return type(module) is nn.BatchNorm2d and module.affine and module.track_running_stats and not module.training

    def pack(self, gradients: Parts) -> Parts:
        """As they are."""
        return gradients

    def forward(self, x: Tensor) -> Tensor:
        """The output."""
        self.x = x
        return torch.addcmul(self.offset, x, self.slope)

    def gradients(self, d: Tensor) -> Parts:
        """By weight and bias."""
        self.d = d
        total = d.sum((2, 3))
        weight = ((d * self.x).sum((2, 3)) - total * self.mean[:, 0, 0]) * self.scale[:, 0, 0]
        return self.per_problem(weight), self.per_problem(total)

    def back(self, d: Tensor) -> Tensor:
        """Through the slope."""
        return d * self.slope

    def tangent(self, t: Tensor | None, direction: Parts) -> Tensor:
        """The moved affine map on the input, and the map on the moved input."""
        slope, offset = self._moved(direction)
        moved = torch.addcmul(offset, self.x, slope)
        return moved if t is None else moved.addcmul_(t, self.slope)

    def tangent_back(self, d: Tensor | None, direction: Parts) -> Tensor:
        """Through the moved slope, and through the slope itself."""
        found = self.d * self._moved(direction)[0]
        return found if d is None else found.addcmul_(d, self.slope)

    def _moved(self, direction: Parts) -> tuple[Tensor, Tensor]:
        weight, bias = (self.per_image(one)[:, :, None, None] for one in direction)
        slope = weight * self.scale
        return slope, bias - slope * self.mean


LAYERS: tuple[type[Layer], ...] = (LinearLayer, ConvLayer, BatchNormLayer)


def nhwc(x: Tensor) -> Tensor:
    """(N, C, H, W) seen as (N, H, W, C), contiguous."""
    return x.permute(0, 2, 3, 1).contiguous()


def nchw(x: Tensor) -> Tensor:
    """(N, H, W, C) seen as (N, C, H, W), channels last in memory."""
    return x.permute(0, 3, 1, 2)


def unfold_rows(x: Tensor, kernel: int, stride: int, padding: int) -> Tensor:
    """What the kernel sees of (N, H, W, C).

    With stride 1 only along rows, (N, rows, places in a row, kernel * C), because slices of it serve every kernel
    row; otherwise in full, (N, places, kernel * kernel * C).
    """
    if kernel == 1:
        return x[:, ::stride, ::stride].reshape(len(x), -1, x.shape[3])
    padded = F.pad(x, (0, 0, padding, padding, padding, padding)) if padding else x
    count, height, width, channels = padded.shape
    images, row, column, _ = padded.stride()
    across = (width - kernel) // stride + 1
    if stride == 1:
        return padded.as_strided((count, height, across, kernel * channels), (images, row, column, 1)).contiguous()
    down = (height - kernel) // stride + 1
    shape = (count, down, across, kernel, kernel * channels)
    unfolded = padded.as_strided(shape, (images, stride * row, stride * column, row, 1))
    return unfolded.reshape(count, down * across, -1)
