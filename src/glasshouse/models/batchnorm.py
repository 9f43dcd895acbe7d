"""Batch norm in eval or train mode for the length of a block, without touching its running statistics."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from glasshouse.types import BatchNorm


def batchnorm_layers(model: nn.Module) -> list[_BatchNorm]:
    """Every batch norm layer of a model."""
    return [module for module in model.modules() if isinstance(module, _BatchNorm)]


@contextmanager
def batchnorm_mode(model: nn.Module, mode: BatchNorm) -> Iterator[None]:
    """Run a block with batch norm in the given mode and all else in eval mode.

    In train mode a layer normalizes with the statistics of the batch. Its running statistics stay as they
    are, because looking at a gradient must not change the model.
    """
    layers = batchnorm_layers(model)
    before = [(module, module.training) for module in model.modules()]
    tracked = [layer.track_running_stats for layer in layers]
    model.eval()
    for layer in layers:
        if mode == "train":
            layer.training, layer.track_running_stats = True, False
    try:
        yield
    finally:
        for module, training in before:
            module.training = training
        for layer, track in zip(layers, tracked, strict=True):
            layer.track_running_stats = track
