"""Gradients of many problems side by side in one tensor, so that objectives see one instead of hundreds."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor


class Packed(dict[str, Tensor]):
    """Tensors (problems, ...) by name, each a part of ``whole`` (problems, values)."""

    def __init__(self, whole: Tensor, shapes: Mapping[str, torch.Size]) -> None:
        self.whole = whole
        self.shapes = dict(shapes)
        pieces = whole.split([shape.numel() for shape in shapes.values()], 1)
        super().__init__(
            (name, piece.unflatten(1, shape)) for (name, shape), piece in zip(shapes.items(), pieces, strict=True)
        )

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor]) -> Packed:
        """Put tensors side by side."""
        whole = torch.cat([tensor.flatten(1) for tensor in tensors.values()], 1)
        return cls(whole, {name: tensor.shape[1:] for name, tensor in tensors.items()})

    def holding(self, whole: Tensor) -> Packed:
        """Another tensor, seen in the same way."""
        return Packed(whole, self.shapes)
