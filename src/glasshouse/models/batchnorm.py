"""Batch norm in eval or train mode for the length of a block, without touching its running statistics."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from glasshouse.types import BatchNorm


class Watched(NamedTuple):
    """What one call of a batch norm layer saw, and what the layer expected."""

    mean: Tensor
    variance: Tensor
    running_mean: Tensor
    running_variance: Tensor


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


@contextmanager
def watched(model: nn.Module, group: int) -> Iterator[list[Watched]]:
    """Gather, while a model runs, the statistics of every ``group`` images in each call of batch norm.

    Means and variances are (problems, channels); layers without running statistics are left out.
    """
    found: list[Watched] = []

    def measure(layer: _BatchNorm, inputs: tuple[Any, ...]) -> None:
        if layer.running_mean is None or layer.running_var is None:
            return
        x = inputs[0].unflatten(0, (-1, group)).transpose(1, 2).flatten(2)  # (problems, channels, values)
        found.append(Watched(x.mean(2), x.var(2, unbiased=False), layer.running_mean, layer.running_var))

    handles = [layer.register_forward_pre_hook(measure) for layer in batchnorm_layers(model)]
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()
