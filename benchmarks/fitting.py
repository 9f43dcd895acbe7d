"""Steps of training by ``fit`` against the loop that everybody writes, in turns."""

from __future__ import annotations

import time

import numpy as np
import torch
from clock import row
from torch import Tensor, nn
from torch.nn import functional as F

from glasshouse.models import create
from glasshouse.training import Recipe, fit
from glasshouse.types import ImageSpec

BATCH = 8
STEPS = 6
TURNS = 12
NETWORKS = {"resnet20": 32, "shufflenet_v2:stem=imagenet": 64, "mobilenet_v2:stem=imagenet": 64}


def run() -> list[dict[str, object]]:
    """Neighbouring turns compared, on one thread; with the standard error that this leaves."""
    torch.set_num_threads(1)
    return [compared(name, size) for name, size in NETWORKS.items()]


def compared(name: str, size: int) -> dict[str, object]:
    """How much longer the plain loop takes."""
    rng = torch.Generator().manual_seed(0)
    images = torch.rand(BATCH * STEPS, 3, size, size, generator=rng)
    labels = torch.arange(len(images)) % 10
    models = [create(name, ImageSpec(3, size, size, 10), seed=0) for _ in range(2)]
    times = np.array([[fitted(models[0], images, labels), plain(models[1], images, labels)] for _ in range(TURNS + 1)])
    ours, theirs = np.median(times[1:], axis=0) / STEPS * 1e3
    ratios = times[1:, 1] / times[1:, 0]
    ratio, error = ratios.mean(), ratios.std(ddof=1) / TURNS**0.5
    measured = f"{ours:.0f} against {theirs:.0f} ms, {ratio:.2f}x, standard error {error:.2f}"
    return row(f"{name}, a step with {BATCH} images of {size} px", measured, "no slower", bool(ratio >= 1))


def fitted(model: nn.Module, images: Tensor, labels: Tensor) -> float:
    """Seconds of one epoch as Glasshouse trains."""
    began = time.perf_counter()
    fit(model, images, labels, Recipe(epochs=1, batch=BATCH, lr=0.01, augment=False))
    return time.perf_counter() - began


def plain(model: nn.Module, images: Tensor, labels: Tensor) -> float:
    """Seconds of one epoch of a loop in plain PyTorch."""
    began = time.perf_counter()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, nesterov=True, weight_decay=5e-4)
    model.train()
    for batch in torch.randperm(len(images)).split(BATCH):
        optimizer.zero_grad()
        F.cross_entropy(model(images[batch]), labels[batch]).backward()
        optimizer.step()
    return time.perf_counter() - began
