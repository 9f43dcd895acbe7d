"""Whether a network has second derivatives to follow."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

#: Functions that bend in one point and are straight elsewhere; modules of the same names call them.
ROUGH = frozenset(
    {
        "adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d", "clamp", "clamp_min", "clip", "hardshrink",
        "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "max_pool1d", "max_pool2d", "max_pool3d", "maximum",
        "prelu", "relu", "relu6", "rrelu", "softshrink", "threshold",
    }
)  # fmt: skip


class _Watching(TorchFunctionMode):
    """Notes every rough function that is called, by a module or by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Look at the name, let the call pass."""
        name = getattr(function, "__name__", "").strip("_")
        if name in ROUGH:
            self.found.add(name)
        return function(*args, **(kwargs or {}))


def rough_functions(model: nn.Module, images: Tensor) -> list[str]:
    """The names of all functions without a second derivative that a model calls on images (N, C, H, W)."""
    with torch.no_grad(), _Watching() as watching:
        model(images)
    return sorted(watching.found)
