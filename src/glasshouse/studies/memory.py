"""How many images fit into memory at once: a function of network and images, so that it is the same in every run."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from glasshouse.types import ImageSpec

BYTES = 4
#: How many tensors as large as all activations, and as all gradients, the engine holds for every image; see tests.
ACTIVATIONS, GRADIENTS = 16, 6
GIGABYTE = 10**9


def bytes_per_image(model: nn.Module, image: ImageSpec) -> int:
    """An upper estimate of what gradient matching holds in memory for each image."""
    outputs = 0

    def count(module: nn.Module, inputs: object, output: object) -> None:
        nonlocal outputs
        outputs += output.numel() if isinstance(output, Tensor) else 0

    leaves = [module for module in model.modules() if not list(module.children())]
    handles = [module.register_forward_hook(count) for module in leaves]
    try:
        with torch.no_grad():
            model(torch.full((1, *image.shape), 0.5))
    finally:
        for handle in handles:
            handle.remove()
    parameters = sum(value.numel() for value in model.parameters() if value.requires_grad)
    return BYTES * (ACTIVATIONS * outputs + GRADIENTS * parameters)


def images_at_once(model: nn.Module, image: ImageSpec, gigabytes: float) -> int:
    """How many images fit, one at least."""
    return max(1, int(gigabytes * GIGABYTE // bytes_per_image(model, image)))
