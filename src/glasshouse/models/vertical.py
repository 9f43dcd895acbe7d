"""A network for vertical federation: every image is cut over several workers, who meet in a fully connected layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from glasshouse import checks
from glasshouse.errors import ModelError
from glasshouse.models.base import Architecture, models
from glasshouse.registry import setting
from glasshouse.types import ImageSpec

ACTIVATIONS = {"tanh": nn.Tanh, "sigmoid": nn.Sigmoid, "relu": nn.ReLU}


class Vertical(nn.Module):
    """Workers with a part of the image and a network each; ``first`` is the first layer that sees all of them.

    ``workers`` are in the order of the parts, row by row; ``rest`` makes logits of the output of ``first``.
    """

    def __init__(self, rows: int, columns: int, workers: list[nn.Module], first: nn.Linear, rest: nn.Module) -> None:
        super().__init__()
        self.rows, self.columns = rows, columns
        self.workers = nn.ModuleList(workers)
        self.first = first
        self.rest = rest

    def parts(self, images: Tensor) -> list[Tensor]:
        """What each worker holds of images (N, C, H, W)."""
        strips = images.tensor_split(self.rows, dim=-2)
        return [part for strip in strips for part in strip.tensor_split(self.columns, dim=-1)]

    def forward(self, images: Tensor) -> Tensor:
        """Logits (N, classes) of images (N, C, H, W)."""
        features = [worker(part) for worker, part in zip(self.workers, self.parts(images), strict=True)]
        logits: Tensor = self.rest(self.first(torch.cat(features, 1)))
        return logits


@models.register("vertical")
@dataclass(frozen=True, kw_only=True)
class VerticalNetwork(Architecture):
    """Two convolutions for each worker's part of the image, and two linear layers for what they found together."""

    paper: ClassVar[str] = "Jin et al. 2021, CAFE: Catastrophic Data Leakage in Vertical Federated Learning"

    rows: int = setting(2, "parts into which the height of an image is cut")
    columns: int = setting(2, "parts into which the width is cut; there are rows x columns workers")
    width: int = setting(16, "channels of every convolution")
    units: int = setting(256, "outputs of the first linear layer")
    activation: Literal["tanh", "sigmoid", "relu"] = setting("tanh", "what follows every layer but the last")

    def __post_init__(self) -> None:
        for name in ("rows", "columns"):
            checks.between(name, getattr(self, name), 1, 16)
        for name in ("width", "units"):
            checks.between(name, getattr(self, name), 1, 65536)
        checks.one_of("activation", self.activation, ACTIVATIONS)

    def build(self, image: ImageSpec) -> nn.Module:
        """Return the bare network with fresh weights."""
        if min(image.height // self.rows, image.width // self.columns) < 1:
            raise ModelError(
                f"Model '{self.name}' cannot cut images of {image} into {self.rows} rows and {self.columns} columns: "
                "use fewer, or larger images."
            )
        activation = ACTIVATIONS[self.activation]
        heights = [len(part) for part in torch.arange(image.height).tensor_split(self.rows)]
        widths = [len(part) for part in torch.arange(image.width).tensor_split(self.columns)]
        features = sum(self.width * -(-height // 2) * -(-width // 2) for height in heights for width in widths)
        return Vertical(
            self.rows,
            self.columns,
            [self._worker(image.channels) for _ in range(self.rows * self.columns)],
            nn.Linear(features, self.units),
            nn.Sequential(activation(), nn.Linear(self.units, image.classes)),
        )

    def _worker(self, channels: int) -> nn.Module:
        """One worker's network; the second convolution halves height and width."""
        activation = ACTIVATIONS[self.activation]
        return nn.Sequential(
            nn.Conv2d(channels, self.width, 3, padding=1),
            activation(),
            nn.Conv2d(self.width, self.width, 3, stride=2, padding=1),
            activation(),
            nn.Flatten(),
        )
