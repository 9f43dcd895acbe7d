"""Model inversion: what a class looks like to a trained model, from its weights alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glasshouse import checks
from glasshouse.attacks.base import InversionAttack, attacks
from glasshouse.errors import CapabilityError
from glasshouse.functional.variation import total_variations
from glasshouse.registry import setting
from glasshouse.types import Capability, Observation, Progress, Reconstruction

GREY = 0.5
START = 0.01  # how far pixels lie from grey at first


@attacks.register("model_inversion")
@dataclass(frozen=True, kw_only=True)
class ModelInversion(InversionAttack):
    """Images that a trained model takes for a class, as smooth and as grey as it lets them be.

    It sees no gradient. What it finds is a prototype of each class, the same for every image of the class but for the
    start, so it speaks of a person only where a class is a person.
    """

    paper: ClassVar[str] = "Fredrikson et al. 2015, Model Inversion Attacks that Exploit Confidence Information"
    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.LABELS})
    together: ClassVar[int] = 64
    follows_device: ClassVar[bool] = True
    version: ClassVar[int] = 2

    steps: int = setting(300, "optimiser steps")
    lr: float = setting(0.05, "step size of Adam in [0, 1] pixels")
    tv: float = setting(10.0, "weight of total variation beside the cross-entropy of one image")
    l2: float = setting(0.1, "weight of the summed squared distance of pixels from grey")
    contrast: float = setting(0.2, "standard deviation to which the pixels of a finished image are stretched")

    def __post_init__(self) -> None:
        checks.at_least("steps", self.steps, 1)
        checks.at_least("lr", self.lr, 1e-9)
        for name in ("tv", "l2"):
            checks.at_least(name, getattr(self, name), 0)
        checks.between("contrast", self.contrast, 0.01, 0.5)

    def run(self, model: nn.Module, seen: Observation, *, rng: torch.Generator, progress: Progress) -> Reconstruction:
        """Find an image of every label."""
        return self._found(model, [seen], [rng], progress)[0]

    def run_all(
        self, model: nn.Module, seen: Sequence[Observation], *, rngs: Sequence[torch.Generator], progress: Progress
    ) -> list[Reconstruction]:
        """Find an image of every label of every observation, all at once unless batch norm would mix them."""
        if seen[0].batchnorm == "train":
            return super().run_all(model, seen, rngs=rngs, progress=progress)
        return self._found(model, seen, rngs, progress)

    def _found(
        self, model: nn.Module, seen: Sequence[Observation], rngs: Sequence[torch.Generator], progress: Progress
    ) -> list[Reconstruction]:
        """Descend on the images of all observations in one batch."""
        labels = torch.cat([self._labels(one) for one in seen])
        starts = [
            GREY + START * torch.randn((one.batch_size, *one.image.shape), generator=rng)
            for one, rng in zip(seen, rngs, strict=True)
        ]
        images, losses = self._descend(model, labels, torch.cat(starts).to(labels.device), progress)
        sizes = [one.batch_size for one in seen]
        parts = zip(images.split(sizes), losses.split(sizes), labels.split(sizes), strict=True)
        return [Reconstruction(own, float(loss.mean()), classes) for own, loss, classes in parts]

    def _labels(self, seen: Observation) -> Tensor:
        if seen.labels is None:
            raise CapabilityError(f"Attack '{self.name}' must be told which classes to look for.")
        return seen.labels

    def _descend(self, model: nn.Module, labels: Tensor, start: Tensor, progress: Progress) -> tuple[Tensor, Tensor]:
        """Adam from grey; returns images (N, C, H, W) in [0, 1] and what the model still has against each, (N,)."""
        dummy = start.clamp(0, 1).requires_grad_()
        optimizer = torch.optim.Adam([dummy], lr=self.lr)
        for step in range(self.steps):
            misfits = F.cross_entropy(model(dummy), labels, reduction="none")
            rough = self.tv * total_variations(dummy, 1)
            grey = self.l2 * (dummy - GREY).square().flatten(1).sum(1)
            (dummy.grad,) = torch.autograd.grad((misfits + rough + grey).sum(), dummy)
            optimizer.step()
            with torch.no_grad():
                dummy.clamp_(0, 1)
            progress((step + 1) / self.steps)
        images = stretched(dummy.detach(), self.contrast)
        with torch.no_grad():
            return images, F.cross_entropy(model(images), labels, reduction="none")


def stretched(images: Tensor, contrast: float) -> Tensor:
    """Images whose pixels have a standard deviation of ``contrast`` around their mean, clamped to [0, 1].

    A class is decided long before an image has the contrast of a photograph.
    """
    mean = images.mean((1, 2, 3), keepdim=True)
    spread = images.std((1, 2, 3), keepdim=True).clamp_min(1e-6)
    return (mean + (images - mean) * (contrast / spread)).clamp(0, 1)
