"""A client's side of training: what it trains on, and how it computes a gradient."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Gradients = Mapping[str, Tensor]


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """Images (N, C, H, W) in [0, 1] and their targets: class numbers (N,) or class probabilities (N, classes).

    ``classes`` is how many classes there are, for who makes probabilities of numbers.
    """

    images: Tensor
    targets: Tensor
    classes: int | None = None

    def to(self, device: torch.device) -> Samples:
        """The same on a device."""
        return Samples(self.images.to(device), self.targets.to(device), self.classes)


@dataclass(frozen=True, slots=True, eq=False)
class Computed:
    """The loss of a batch, and its gradient by parameter name."""

    loss: float
    gradients: Gradients


def plain_gradients(model: nn.Module, samples: Samples) -> Computed:
    """Gradient of the mean cross-entropy; a parameter that the loss does not depend on has a zero gradient."""
    named = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    loss = F.cross_entropy(model(samples.images), samples.targets)
    found = torch.autograd.grad(loss, list(named.values()), allow_unused=True, materialize_grads=True)
    return Computed(float(loss.detach()), dict(zip(named, found, strict=True)))


class Client:
    """Trains plainly; a defended client overrides what its defense changes."""

    poisson: bool = False
    follows_device: bool = True  # whether it computes gradients wherever model and samples lie

    def begin(self, steps: int, sample_rate: float, batch: int) -> None:
        """Be told how many steps are to come, and how many images each sees, as a share and as a number."""

    def samples(self, samples: Samples) -> Samples:
        """What the client trains on in one epoch, given its own images and labels."""
        return samples

    def gradients(self, model: nn.Module, samples: Samples) -> Computed:
        """The gradient of one batch to train with."""
        return plain_gradients(model, samples)
