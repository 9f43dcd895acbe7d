"""Classifiers that judge whether a reconstruction shows its original: no people, and never called so."""

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
from glasshouse.semsim.eyes import EYES

PENALTY = 0.01  # inverse strength of the probe's L2 penalty
COPIES = 1  # degraded copies of every image that a probe learns from
VERSION = 1  # counts changes that change verdicts
LINEUP = 20  # an original must be told from so many others
SHARPNESS = 25.0  # how quickly likeness falls off with the angle between two images


@dataclass(frozen=True, slots=True, eq=False)
class Probe:
    """A linear map from what an eye sees to classes: the judge of objects."""

    eye: str
    weight: Tensor
    bias: Tensor
    centre: Tensor
    scale: Tensor
    classes: Tensor

    def probabilities(self, images: Tensor) -> Tensor:
        """How likely each class is, (N, classes), averaged over the image and a blurred view of it."""
        views = (images, blurred(images, 0.4))
        return torch.stack([self._logits(view).softmax(1) for view in views]).mean(0)

    def __call__(self, images: Tensor) -> Tensor:
        """The classes (N,) that images (N, C, H, W) in [0, 1] seem to show."""
        return self.classes[self._logits(images).argmax(1)]

    def _logits(self, images: Tensor) -> Tensor:
        return ((EYES[self.eye](images) - self.centre) / self.scale) @ self.weight.T + self.bias

    def save(self, file: Path) -> None:
        """Keep the judge, so that every row of a table has the same."""
        tensors = {name: getattr(self, name).contiguous() for name in TENSORS}
        write_atomic(file, to_safetensors(tensors, metadata={"eye": self.eye}))

    @classmethod
    def load(cls, eye: str, file: Path) -> Probe:
        """Read a judge back."""
        return cls(eye, **load_file(file))


TENSORS = ("weight", "bias", "centre", "scale", "classes")


def train_probe(eye: str, images: Tensor, labels: Tensor, seed: int) -> Probe:
    """Fit a probe to raw images and to degraded copies of them.

    Judges that have seen degraded images agree better with people on reconstructions than those that have not.
    """
    rng = torch.Generator().manual_seed(seed)
    found = torch.cat([EYES[eye](one) for one in (images, *(degraded(images, rng) for _ in range(COPIES)))])
    centre, scale = found.mean(0), found.std(0).clamp_min(1e-6)
    probe = LogisticRegression(C=PENALTY, max_iter=300, random_state=seed)
    probe.fit(((found - centre) / scale).numpy(), np.tile(labels.numpy(), 1 + COPIES))
    weight, bias = (torch.from_numpy(one).float() for one in (probe.coef_, probe.intercept_))
    if len(weight) == 1:  # of two classes only the second has a row of its own
        weight, bias = torch.cat([-weight, weight]), torch.cat([-bias, bias])
    return Probe(eye, weight, bias, centre, scale, torch.from_numpy(probe.classes_))


@dataclass(frozen=True, slots=True, eq=False)
class Lineup:
    """Originals as an eye sees them, (M, D) unit vectors around ``centre``: the judge of faces and breeds."""

    eye: str
    centre: Tensor
    originals: Tensor

    @classmethod
    def of(cls, eye: str, originals: Tensor) -> Lineup:
        """Line up originals (M, C, H, W); without their mean the angle between two says something."""
        seen = EYES[eye](originals)
        return cls(eye, seen.mean(0), F.normalize(seen - seen.mean(0), dim=1))

    def chances(self, guesses: Tensor, candidates: Tensor) -> Tensor:
        """How likely each guess is taken for each of its candidates, places (N, K) in the lineup: (N, K)."""
        seen = F.normalize(EYES[self.eye](guesses) - self.centre, dim=1)
        likeness: Tensor = (self.originals[candidates] * seen[:, None]).sum(2)
        return (SHARPNESS * likeness).softmax(1)


def blurred(images: Tensor, degree: float) -> Tensor:
    """Images made small by ``1 + 2.5 degree`` each way and large again."""
    small = F.interpolate(images, scale_factor=1 / (1 + 2.5 * degree), mode="area")
    return F.interpolate(small, size=list(images.shape[-2:]), mode="bilinear", align_corners=False)


def degraded(images: Tensor, rng: torch.Generator) -> Tensor:
    """Each image as reconstructions look: blurred, blotched with colour, noisy and pale, to degrees of its own."""
    found = []
    for image in images.split(1):
        blur, blot, noise, pale = torch.rand(4, generator=rng).tolist()
        image = blurred(image, blur)
        coarse = torch.randn((1, image.shape[1], 4, 4), generator=rng)
        blotches = F.interpolate(coarse, size=list(image.shape[-2:]), mode="bicubic", align_corners=False)
        image = image + 0.25 * blot * blotches + 0.2 * noise * torch.randn(image.shape, generator=rng)
        found.append(image.mean() + (image - image.mean()) * (1 - 0.6 * pale))
    return torch.cat(found).clamp(0, 1)
