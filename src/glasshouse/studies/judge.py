"""A classifier that says which class a picture shows: a linear probe on AlexNet, no person and never called one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from safetensors.torch import save as to_safetensors
from sklearn.linear_model import LogisticRegression
from torch import Tensor
from torch.nn import functional as F

from glasshouse.files import write_atomic
from glasshouse.models.trunks import alexnet

SIDE = 128
GRID = 2  # the last convolution is averaged down to so many places each way
MEAN = torch.tensor([0.485, 0.456, 0.406]).view(1, 3, 1, 1)
STD = torch.tensor([0.229, 0.224, 0.225]).view(1, 3, 1, 1)
AT_ONCE = 64
VERSION = 1  # counts changes that change verdicts
PENALTY = 0.01  # inverse strength of the probe's L2 penalty


@dataclass(frozen=True, slots=True, eq=False)
class Judge:
    """A linear map from AlexNet's features to classes."""

    weight: Tensor
    bias: Tensor
    centre: Tensor
    scale: Tensor
    classes: Tensor

    def __call__(self, images: Tensor) -> Tensor:
        """The classes (N,) that images (N, C, H, W) in [0, 1] seem to show."""
        logits = ((features(images) - self.centre) / self.scale) @ self.weight.T + self.bias
        return self.classes[logits.argmax(1)]

    def save(self, file: Path) -> None:
        """Keep the judge, so that every row of a table has the same."""
        write_atomic(file, to_safetensors({name: getattr(self, name).contiguous() for name in self.__slots__}))

    @classmethod
    def load(cls, file: Path) -> Judge:
        """Read a judge back."""
        return cls(**load_file(file))


def train_judge(images: Tensor, labels: Tensor, seed: int) -> Judge:
    """Fit the probe to raw images and to blurred, noisy and pale copies of them.

    Judges that have seen degraded images agree better with people on reconstructions than those that have not.
    """
    rng = torch.Generator().manual_seed(seed)
    found = torch.cat([features(images), features(degraded(images, rng))])
    centre, scale = found.mean(0), found.std(0).clamp_min(1e-6)
    probe = LogisticRegression(C=PENALTY, max_iter=300, random_state=seed)
    probe.fit(((found - centre) / scale).numpy(), np.tile(labels.numpy(), 2))
    weight, bias = (torch.from_numpy(one).float() for one in (probe.coef_, probe.intercept_))
    if len(weight) == 1:  # of two classes only the second has a row of its own
        weight, bias = torch.cat([-weight, weight]), torch.cat([-bias, bias])
    return Judge(weight, bias, centre, scale, torch.from_numpy(probe.classes_))


def features(images: Tensor) -> Tensor:
    """AlexNet's last convolution (N, 1024) of grey or colour images in [0, 1], enlarged to one size."""
    parts = []
    with torch.no_grad():
        for part in images.split(AT_ONCE):
            large = F.interpolate(part.expand(-1, 3, -1, -1), size=(SIDE, SIDE), mode="bilinear", align_corners=False)
            last = alexnet()((large - MEAN) / STD)[-1]
            parts.append(F.adaptive_avg_pool2d(last, GRID).flatten(1))
    return torch.cat(parts)


def degraded(images: Tensor, rng: torch.Generator) -> Tensor:
    """Each image blurred, noisy or pale, to a degree of its own."""
    size = list(images.shape[-2:])
    found = []
    for image in images.split(1):
        kind, degree = int(torch.randint(3, (1,), generator=rng)), float(torch.rand((), generator=rng))
        if kind == 0:
            small = F.interpolate(image, scale_factor=1 / (1.5 + 2.5 * degree), mode="area")
            found.append(F.interpolate(small, size=size, mode="bilinear", align_corners=False))
        elif kind == 1:
            found.append(image + 0.2 * degree * torch.randn(image.shape, generator=rng))
        else:
            found.append(image.mean() + (image - image.mean()) * (1 - 0.7 * degree))
    return torch.cat(found).clamp(0, 1)
