"""What a client's weights become in local training, as something that can be differentiated by its images."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F


def batches_in_order(count: int, size: int | None, steps: int) -> Iterator[slice]:
    """Which of ``count`` images each of some local steps sees: batch after batch, epoch after epoch."""
    size = count if size is None else size
    starts = range(0, count, size)
    for step in range(steps):
        start = starts[step % len(starts)]
        yield slice(start, start + size)


def local_steps(count: int, size: int | None, epochs: int) -> int:
    """How many steps so many passes over ``count`` images take."""
    return epochs * -(-count // (size or count))


def local_update(
    model: nn.Module, images: Tensor, targets: Tensor, *, learning_rate: float, steps: int, batch: int | None
) -> dict[str, Tensor]:
    """Weights before minus weights after steps of plain SGD, by parameter name, differentiable by images and targets.

    ``images`` are (N, C, H, W) in [0, 1], ``targets`` class numbers (N,) or probabilities (N, classes), and each step
    sees ``batch`` of them in order. The model itself stays as it is.
    """
    weights = {name: value for name, value in model.named_parameters() if value.requires_grad}
    moved = {name: torch.zeros_like(value) for name, value in weights.items()}
    for part in batches_in_order(len(images), batch, steps):
        # as differences, not as new weights, which would round small steps away
        now = {name: value - moved[name] for name, value in weights.items()}
        loss = F.cross_entropy(functional_call(model, now, (images[part],)), targets[part])
        found = torch.autograd.grad(
            loss, list(now.values()), create_graph=True, allow_unused=True, materialize_grads=True
        )
        moved = {name: moved[name] + learning_rate * one for name, one in zip(moved, found, strict=True)}
    return moved
