"""Part F: tell which protected versions show the same image, and which image of a gallery they show."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glasshouse import checks
from glasshouse.attacks.unshuffling.practice import Practice
from glasshouse.types import Progress, no_progress

DIMENSIONS = 128


@dataclass(frozen=True, kw_only=True)
class Training:
    """How long the linker is trained; the same for every defense that is compared."""

    steps: int = 300
    batch: int = 64
    lr: float = 2e-3
    temperature: float = 0.1
    width: int = 32
    seed: int = 0

    def __post_init__(self) -> None:
        checks.at_least("steps", self.steps, 1)
        checks.at_least("batch", self.batch, 1)
        checks.at_least("width", self.width, 1)


class Linker(nn.Module):
    """Two encoders, one for protected and one for raw images, that agree on what shows the same."""

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.protected, self.raw = _encoder(channels, width), _encoder(channels, width)


def learn(practice: Practice, training: Training, *, progress: Progress = no_progress) -> Linker:
    """Train on public images and versions of them under fresh keys, so that equals agree (InfoNCE, Oord 2018)."""
    channels = practice.public.images.shape[1]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(training.seed)
        linker = Linker(channels, training.width)
    optimizer = torch.optim.Adam(linker.parameters(), lr=training.lr)
    rng = torch.Generator().manual_seed(training.seed)
    batches = practice.batches(training.batch, training.steps, rng, versions=2)
    for step, (truth, versions) in enumerate(batches, start=1):
        first, second = (F.normalize(linker.protected(one)) for one in versions)
        raw = F.normalize(linker.raw(truth))
        optimizer.zero_grad()
        equals = torch.arange(len(truth))
        agreement = [first @ second.T, first @ raw.T, raw @ first.T]
        torch.stack([F.cross_entropy(one / training.temperature, equals) for one in agreement]).sum().backward()
        optimizer.step()
        progress(step / training.steps)
    return linker.eval()


def embed(encoder: nn.Module, images: Tensor, *, at_once: int = 256) -> Tensor:
    """Unit vectors (N, 128) of images."""
    with torch.no_grad():
        return torch.cat([F.normalize(encoder(part)) for part in images.split(at_once)])


def _encoder(channels: int, width: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for inputs, outputs in ((channels, width), (width, 2 * width), (2 * width, 4 * width)):
        layers += [nn.Conv2d(inputs, outputs, 4, stride=2, padding=1), nn.GroupNorm(1, outputs), nn.SiLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(64 * width, DIMENSIONS))
