"""Convolutions: what all problems share goes to PyTorch, what each has of its own to products of matrices.

Images are (N, C, H, W), laid out channels last; matrices are (kernel row, kernel column, C) by outputs. Products over
unfolded inputs beat grouped convolutions on a CPU.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glasshouse.attacks.engine.layers import Layer, _plus, _store
from glasshouse.attacks.engine.nodes import Parts

#: Counts that decide between ways to the same result; rules, so that a run that is resumed computes the same.
FEW_PLACES, MANY_CHANNELS = 512, 64  # turning weights around takes longer than multiplying with them piece by piece
FEW_CHANNELS = 16  # rows of channels too short to be added one by one
MANY_VALUES = 1 << 16  # of one image, unfolded in full


class ConvLayer(Layer):
    """A convolution with square kernels and zero padding, without groups and dilation."""

    fresh = True

    def __init__(self, module: nn.Conv2d, path: str, group: int) -> None:
        super().__init__(module, path, group)
        self.outputs, self.inputs, self.kernel, _ = module.weight.shape
        self.stride, self.padding = int(module.stride[0]), int(module.padding[0])
        self.by_row = False
        self.seen, self.arrived = Frame(self.padding), Frame(self.kernel - 1 - self.padding)
        self.hold(module.weight.detach(), None if module.bias is None else module.bias.detach())

    def hold(self, weight: Tensor, bias: Tensor | None) -> None:
        """Take these weights (outputs, inputs, kernel, kernel), in all layouts that passes want them in."""
        self.weight = weight.contiguous(memory_format=torch.channels_last)
        self.bias = bias
        self.matrix = self.pack([weight[None]])[0]
        # with stride 1 the way back is itself a convolution, with mirrored weights
        self.mirrored = weight.transpose(0, 1).flip(2, 3).contiguous(memory_format=torch.channels_last)

    @property
    def kept(self) -> int:
        """The unfolded input, whose parts lie in the same memory, and what is framed."""
        images = self.group * self.weight.element_size()
        framed = self.seen.values(self.size) * self.inputs + self.arrived.values(self.out) * self.outputs
        return self.parts[0].untyped_storage().nbytes() + images * framed

    @staticmethod
    def fits(module: nn.Module) -> bool:
        """Square, padded with zeros, neither groups nor dilation."""
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

    def pack(self, gradients: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Weights as matrices."""
        weight, *rest = gradients
        return (weight.permute(0, 3, 4, 2, 1).reshape(len(weight), -1, self.outputs), *rest)

    def places(self, x: Tensor) -> int:
        """At how many places of an image the kernel is applied."""
        return math.prod((size + 2 * self.padding - self.kernel) // self.stride + 1 for size in x.shape[2:])

    def forward(self, x: Tensor) -> Tensor:
        """The output; keeps the unfolded input."""
        y = F.conv2d(x, self.weight, self.bias, self.stride, self.padding)
        self.size, self.out = x.shape[2:], y.shape[2:]
        large = self.out.numel() * self.inputs * self.kernel**2 > MANY_VALUES
        self.by_row = large and self.group == 1 and self.stride == 1 and self.kernel > 1
        self.parts = self._unfolded(self.seen.around(nhwc(x)), self.out)
        return y

    def back(self, d: Tensor) -> Parts:
        """Unfolded input times output gradient; the gradient by the input through the weights."""
        self.d = nhwc(d)
        flat = self.d.reshape(len(d) // self.group, -1, self.outputs)
        weight, *bias = self.gradients
        if weight is not None:
            for part, place in zip(self.parts, weight.chunk(len(self.parts), 1), strict=True):
                torch.bmm(part.transpose(1, 2), flat, out=place)
        for own in bias:
            _store(own, flat.sum(1))
        return (self._through_weights(d) if self.moves else None,)

    def tangent(self, t: Tensor | None) -> Tensor | None:
        """The weights on the moved input, and the moved weights on the input."""
        shape = (len(self.d) // self.group, -1, self.outputs)
        moved = None
        if t is not None:
            moved = nhwc(F.conv2d(t, self.weight, None, self.stride, self.padding)).view(shape)
        weight, *bias = self.direction
        if weight is not None:
            for part, matrix in zip(self.parts, weight.chunk(len(self.parts), 1), strict=True):
                moved = torch.bmm(part, matrix) if moved is None else moved.baddbmm_(part, matrix)
        for own in bias:
            moved = _plus(moved, own, self.d.reshape(shape).shape)
        return None if moved is None else nchw(moved.reshape(self.d.shape))

    def tangent_back(self, d: Tensor) -> Parts:
        """Through the weights, and through the moved weights."""
        weight = self.direction[0]
        if weight is None:
            return (self._through_weights(d),)
        if self.inputs < FEW_CHANNELS:
            return (self._folded(d, weight),)
        if self.stride > 1:
            columns = nhwc(d) @ self.matrix[0].T
            columns.view(len(weight), -1, weight.shape[1]).baddbmm_(
                self.d.view(len(weight), -1, self.outputs), weight.transpose(1, 2)
            )
            return (nchw(self._scattered(columns)),)
        return (nchw(self._mirrored(weight, nhwc(self._through_weights(d)))),)

    def _through_weights(self, d: Tensor) -> Tensor:
        if self.stride == 1:
            return F.conv2d(d, self.mirrored, None, 1, self.kernel - 1 - self.padding)
        extra = [
            size - ((out - 1) * self.stride - 2 * self.padding + self.kernel)
            for size, out in zip(self.size, self.out, strict=True)
        ]
        return F.conv_transpose2d(d, self.weight, None, self.stride, self.padding, extra)

    def _mirrored(self, weight: Tensor, found: Tensor) -> Tensor:
        """Add the output gradient times the moved weights: a convolution with kernels turned around."""
        flat = found.view(len(weight), -1, self.inputs)
        parts = self._unfolded(self.arrived.around(self.d), self.size)
        places = weight.view(-1, self.kernel**2, self.inputs, self.outputs).transpose(2, 3)
        if self.outputs >= MANY_CHANNELS and self.size.numel() < FEW_PLACES:
            pieces = [piece for part in parts for piece in part.split(self.outputs, 2)]
            for piece, matrix in zip(pieces, reversed(places.unbind(1)), strict=True):
                flat.baddbmm_(piece, matrix)
        else:
            matrices = places.flip(1).reshape(len(weight), -1, self.inputs).chunk(len(parts), 1)
            for part, matrix in zip(parts, matrices, strict=True):
                flat.baddbmm_(part, matrix)
        return found

    def _folded(self, d: Tensor, weight: Tensor) -> Tensor:
        """Both ways back as columns (images, kernel values, places), added up where they came from by PyTorch."""
        shape = (len(weight), self.group, -1, self.outputs)
        own, arrived = (one.reshape(shape).transpose(2, 3) for one in (self.d, nhwc(d)))
        columns = self.weight.reshape(self.outputs, -1).T @ arrived
        matrix = weight.view(-1, self.kernel**2, self.inputs, self.outputs).transpose(1, 2).flatten(1, 2)
        columns += matrix[:, None] @ own
        return F.fold(columns.flatten(0, 1), self.size, self.kernel, padding=self.padding, stride=self.stride)

    def _unfolded(self, x: Tensor, out: Sequence[int]) -> list[Tensor]:
        """What the kernel sees of framed images (N, H, W, C), as matrices (problems, places, values).

        One for each kernel row where they can be slices of the same memory; otherwise one for all.
        """
        high, wide = out
        rows = unfold_rows(x, self.kernel, self.stride, self.by_row)
        if self.by_row:
            return [rows[:, row : row + high].view(len(rows), high * wide, -1) for row in range(self.kernel)]
        return [rows.view(len(x) // self.group, self.group * high * wide, -1)]

    def _scattered(self, columns: Tensor) -> Tensor:
        """Add up what came from one place: (N, places down, places across, kernel values) to (N, H, W, C)."""
        pieces = columns.unflatten(3, (self.kernel, self.kernel, self.inputs))
        height, width = self.size
        edge = self.kernel  # room for kernels that reach over the edge
        whole = columns.new_zeros(len(columns), height + 2 * edge, width + 2 * edge, self.inputs)
        start, step, (down, across) = edge - self.padding, self.stride, self.out
        for row in range(self.kernel):
            for column in range(self.kernel):
                top, left = start + row, start + column
                place = whole[:, top : top + down * step : step, left : left + across * step : step]
                place += pieces[:, :, :, row, column]
        return whole[:, edge : edge + height, edge : edge + width].contiguous()


class Frame:
    """A border of zeros for images (N, H, W, C), in memory that is used again."""

    def __init__(self, border: int) -> None:
        self.border = border
        self.whole: Tensor | None = None

    def values(self, size: Sequence[int]) -> int:
        """How many there are of a channel of this size with its border; none are kept without one."""
        height, width = size
        return (height + 2 * self.border) * (width + 2 * self.border) if self.border else 0

    def around(self, x: Tensor) -> Tensor:
        """The images with their border."""
        if not self.border:
            return x
        count, height, width, channels = x.shape
        shape = (count, height + 2 * self.border, width + 2 * self.border, channels)
        if self.whole is None or self.whole.shape != shape:
            self.whole = x.new_zeros(shape)
        self.whole[:, self.border : -self.border, self.border : -self.border] = x
        return self.whole


def nhwc(x: Tensor) -> Tensor:
    """(N, C, H, W) seen as (N, H, W, C), contiguous."""
    return x.permute(0, 2, 3, 1).contiguous()


def nchw(x: Tensor) -> Tensor:
    """(N, H, W, C) seen as (N, C, H, W), channels last in memory."""
    return x.permute(0, 3, 1, 2)


def unfold_rows(x: Tensor, kernel: int, stride: int, by_row: bool) -> Tensor:
    """What the kernel sees of (N, H, W, C).

    Only along rows, (N, rows, places in a row, kernel * C), because slices of it serve every kernel row; otherwise
    in full, (N, rows of places, places in a row, kernel * kernel * C).
    """
    if kernel == 1:
        return x[:, ::stride, ::stride].contiguous()
    count, height, width, channels = x.shape
    images, row, column, _ = x.stride()
    across = (width - kernel) // stride + 1
    if by_row:
        return x.as_strided((count, height, across, kernel * channels), (images, row, column, 1)).contiguous()
    down = (height - kernel) // stride + 1
    shape = (count, down, across, kernel, kernel * channels)
    return x.as_strided(shape, (images, stride * row, stride * column, row, 1)).contiguous()
