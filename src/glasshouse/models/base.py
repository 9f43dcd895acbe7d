"""What every model keeps: images in [0, 1] in, logits out, its own normalization inside."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor, nn

from glasshouse.devices import home_of
from glasshouse.registry import Registry, complete_spec
from glasshouse.types import ImageSpec


class Classifier(nn.Module):
    """A network with the normalization of its input built in."""

    mean: Tensor
    std: Tensor

    def __init__(self, network: nn.Module, mean: float, std: float) -> None:
        super().__init__()
        self.network = network
        self.register_buffer("mean", torch.tensor(mean))
        self.register_buffer("std", torch.tensor(std))

    def forward(self, images: Tensor) -> Tensor:
        """Logits (N, classes) of images (N, C, H, W) in [0, 1]."""
        logits: Tensor = self.network((images - self.mean) / self.std)
        return logits


class Architecture(ABC):
    """The settings of a network; ``build`` makes one for images of a given shape."""

    name: ClassVar[str]
    paper: ClassVar[str]
    mean: ClassVar[float] = 0.5
    std: ClassVar[float] = 0.25
    version: ClassVar[int] = 1  # counts changes that change what training makes of it

    @property
    def meaning(self) -> str:
        """What keys of trained networks say of it: its whole SPEC, and its version where that is not the first."""
        return complete_spec(self) + (f" v{self.version}" if self.version > 1 else "")

    @abstractmethod
    def build(self, image: ImageSpec) -> nn.Module:
        """Return the bare network with fresh weights."""


models: Registry[Architecture] = Registry("model", "glasshouse.models")


def create(spec: str, image: ImageSpec, *, seed: int = 0) -> Classifier:
    """Build a freshly initialised model, in eval mode, that depends on the SPEC, the shape and the seed only."""
    architecture = models.create(spec)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = architecture.build(image)
    return Classifier(network, architecture.mean, architecture.std).eval()


def normalization(model: nn.Module) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation a model subtracts and divides by; 0 and 1 for one that does not say."""
    if isinstance(model, Classifier):
        return model.mean, model.std
    device = home_of(model)
    return torch.tensor(0.0, device=device), torch.tensor(1.0, device=device)
