"""Gradients of a classifier's loss, and distances between them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

SMALL = 1e-12  # largest entry below which a gradient is scaled before it is squared


def parameter_names(model: nn.Module) -> tuple[str, ...]:
    """The names of the parameters whose gradients are shared, in the model's own order."""
    return tuple(name for name, parameter in model.named_parameters() if parameter.requires_grad)


def parameter_gradients(
    model: nn.Module, images: Tensor, targets: Tensor, *, create_graph: bool = False
) -> tuple[Tensor, ...]:
    """Gradients of the mean cross-entropy with respect to every parameter that requires one.

    ``targets`` are class numbers (N,) or class probabilities (N, classes). A parameter that the loss does
    not depend on has a zero gradient.
    """
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    loss = F.cross_entropy(model(images), targets)
    gradients = torch.autograd.grad(loss, parameters, create_graph=create_graph, allow_unused=True)
    return tuple(
        torch.zeros_like(parameter) if gradient is None else gradient
        for gradient, parameter in zip(gradients, parameters, strict=True)
    )


def squared_distance(first: Sequence[Tensor], second: Sequence[Tensor]) -> Tensor:
    """Sum of squared differences over all tensors (DLG's objective)."""
    return torch.stack([(a - b).pow(2).sum() for a, b in zip(first, second, strict=True)]).sum()


def cosine_distance(first: Sequence[Tensor], second: Sequence[Tensor]) -> Tensor:
    """One minus the cosine of the angle between all tensors taken jointly (InvGrad's objective)."""
    first, second = _lifted(first), _lifted(second)
    dot = torch.stack([(a * b).sum() for a, b in zip(first, second, strict=True)]).sum()
    norms = [torch.stack([tensor.pow(2).sum() for tensor in side]).sum().sqrt() for side in (first, second)]
    return 1 - dot / (norms[0] * norms[1]).clamp_min(torch.finfo(dot.dtype).tiny)


def _lifted(tensors: Sequence[Tensor]) -> Sequence[Tensor]:
    """The same direction, scaled up where the squares of a converged model's gradient would vanish."""
    largest = float(torch.stack([tensor.detach().abs().amax() for tensor in tensors]).amax())
    return [tensor / largest for tensor in tensors] if 0 < largest < SMALL else tensors


def signal_to_noise_db(clean: Sequence[Tensor], changed: Sequence[Tensor]) -> float:
    """How much of a gradient a defense left: 10 log10(|g|^2 / |g' - g|^2), infinite where nothing changed."""
    signal = sum(float(tensor.double().pow(2).sum()) for tensor in clean)
    noise = float(squared_distance([t.double() for t in clean], [t.double() for t in changed]))
    return float(10 * torch.log10(torch.tensor(signal, dtype=torch.float64) / noise)) if noise else float("inf")
