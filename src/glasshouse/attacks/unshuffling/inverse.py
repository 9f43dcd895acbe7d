"""Part D: a small U-Net that learns to undo an image defense from public images under fresh keys."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glasshouse import checks
from glasshouse.attacks.unshuffling.practice import Practice
from glasshouse.types import Progress, no_progress


@dataclass(frozen=True, kw_only=True)
class Training:
    """How long and how large the inverse is trained; the same for every defense that is compared."""

    steps: int = 600
    batch: int = 32
    lr: float = 2e-3
    width: int = 16
    seed: int = 0

    def __post_init__(self) -> None:
        checks.at_least("steps", self.steps, 1)
        checks.at_least("batch", self.batch, 1)
        checks.at_least("width", self.width, 1)


class Inverse(nn.Module):
    """A U-Net of three levels (Ronneberger 2015) that corrects the protected image.

    It also sees where in its region each pixel lies, and the mean colour around it, since a shuffle keeps both.
    """

    def __init__(self, channels: int, region: int, width: int) -> None:
        super().__init__()
        self.region = region
        self.down = nn.ModuleList(
            [
                _block(2 * channels + 2, width),
                _block(width, 2 * width),
                _block(2 * width, 4 * width),
                _block(4 * width, 4 * width),
            ]
        )
        self.up = nn.ModuleList([_block(8 * width, 2 * width), _block(4 * width, width), _block(2 * width, width)])
        self.last = nn.Conv2d(width, channels, 1)

    def forward(self, images: Tensor) -> Tensor:
        """Protected images (N, C, H, W) to guesses of the originals, of the same shape."""
        height, width = images.shape[-2:]
        base = F.avg_pool2d(images, self.region, ceil_mode=True, count_include_pad=False)
        full = [base.shape[-2] * self.region, base.shape[-1] * self.region]
        base = F.interpolate(base, size=full, mode="bilinear", align_corners=False)[..., :height, :width]
        x = F.pad(torch.cat([images, base, self._places(images)], 1), (0, -width % 8, 0, -height % 8), mode="replicate")
        kept = []
        for level, block in enumerate(self.down):
            x = block(x if level == 0 else F.avg_pool2d(x, 2))
            kept.append(x)
        x = kept.pop()
        for block in self.up:
            x = block(torch.cat([F.interpolate(x, scale_factor=2.0), kept.pop()], 1))
        found: Tensor = base + self.last(x)[..., :height, :width]
        return found

    def _places(self, images: Tensor) -> Tensor:
        """Row and column of every pixel inside its region, in [-1, 1)."""
        count, _, height, width = images.shape
        rows, columns = ((torch.arange(size) % self.region) * 2 / self.region - 1 for size in (height, width))
        grid = torch.stack([rows[:, None].expand(height, width), columns[None].expand(height, width)])
        return grid.expand(count, 2, height, width)


def learn(practice: Practice, region: int, training: Training, *, progress: Progress = no_progress) -> Inverse:
    """Train an inverse on public images; the victim's are never seen."""
    channels = practice.public.images.shape[1]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(training.seed)
        network = Inverse(channels, region, training.width)
    optimizer = torch.optim.Adam(network.parameters(), lr=training.lr)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, training.lr, total_steps=max(training.steps, 2))
    rng = torch.Generator().manual_seed(training.seed)
    for step, (truth, versions) in enumerate(practice.batches(training.batch, training.steps, rng), start=1):
        optimizer.zero_grad()
        F.l1_loss(network(versions[0]), truth).backward()
        optimizer.step()
        schedule.step()
        progress(step / training.steps)
    return network.eval()


def invert(network: Inverse, images: Tensor, *, at_once: int = 64) -> Tensor:
    """Apply a trained inverse; guesses are in [0, 1]."""
    with torch.no_grad():
        return torch.cat([network(part).clamp(0, 1) for part in images.split(at_once)])


def _block(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1),
        nn.GroupNorm(8 if outputs % 8 == 0 else 1, outputs),
        nn.SiLU(),
        nn.Conv2d(outputs, outputs, 3, padding=1),
        nn.SiLU(),
    )
