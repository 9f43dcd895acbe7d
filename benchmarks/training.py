"""Training ResNet20 on images of CIFAR's shape through a DataLoader, with CSVAR as the transform and without."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np
import torch
from clock import row
from torch import Tensor
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

from glasshouse.defenses.csvar import CSVAR
from glasshouse.models import create
from glasshouse.types import ImageSpec

BATCH = 128
TURNS = 24


class Images(Dataset[tuple[Tensor, int]]):
    """Random 8-bit images: neither training nor the shuffle takes longer for others."""

    def __init__(self, transform: Callable[[np.ndarray], np.ndarray]) -> None:
        self.pixels = np.random.default_rng(0).integers(0, 256, (10 * BATCH, 32, 32, 3), dtype=np.uint8)
        self.transform = transform

    def __len__(self) -> int:
        return len(self.pixels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return torch.from_numpy(self.transform(self.pixels[index])).permute(2, 0, 1), index % 10


def run() -> list[dict[str, object]]:
    """Take steps with and without in turns, on one thread that both loads and trains.

    What follows a load is the same work either way and varies more than CSVAR takes, so its times are pooled;
    whole steps are compared too, with the standard error that this leaves.
    """
    torch.set_num_threads(1)
    sides = batches(lambda image: image), batches(CSVAR(key=bytes(32)))
    train = trainer()
    for side in sides:  # to warm up
        train(*next(side))
    turns = np.array([[timed(side, train) for side in sides] for _ in range(TURNS)])  # (turns, sides, load and train)
    plain, shuffled = np.median(turns[:, :, 0], axis=0)
    training = np.median(turns[:, :, 1])
    ratio = (shuffled + training) / (plain + training)
    before, after = turns.sum(axis=2).T
    whole, error = (after / before).mean(), (after / before).std(ddof=1) / TURNS**0.5
    return [
        row("ResNet20, a step with 128 images of 32 px", f"{(plain + training) * 1e3:.0f} ms", "", True),
        row("the same, CSVAR the loader's transform", f"{ratio:.3f}x", "1.03x", bool(ratio <= 1.03)),
        row("the same, neighbouring whole steps compared", f"{whole:.2f}x, standard error {error:.2f}", "", True),
        row("CSVAR in the loader", f"{(shuffled - plain) / BATCH * 1e6:.0f} microseconds per image", "", True),
    ]


def batches(transform: Callable[[np.ndarray], np.ndarray]) -> Iterator[list[Tensor]]:
    """Batches of one epoch after another."""
    loader = DataLoader(Images(transform), BATCH, shuffle=True)
    while True:
        yield from loader


def trainer() -> Callable[[Tensor, Tensor], None]:
    """A model's training on one batch."""
    model = create("resnet20", ImageSpec(3, 32, 32, 10)).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def train(images: Tensor, labels: Tensor) -> None:
        optimizer.zero_grad()
        F.cross_entropy(model(images.float() / 255), labels).backward()
        optimizer.step()

    return train


def timed(loaded: Iterator[list[Tensor]], train: Callable[[Tensor, Tensor], None]) -> tuple[float, float]:
    """Seconds to load a batch and to train on it."""
    began = time.perf_counter()
    batch = next(loaded)
    between = time.perf_counter()
    train(*batch)
    return between - began, time.perf_counter() - between
