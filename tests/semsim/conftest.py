"""Judged guesses that need no judge: the stronger a photograph is degraded, the fewer recognise it."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from glasshouse import data
from glasshouse.semsim import Judged

GRADES = torch.tensor([0.05, 0.25, 0.6, 0.95])


@pytest.fixture(scope="session")
def judged() -> Judged:
    """Sixteen crops of photographs with four guesses each, noisier from one to the next."""
    photos = data.load("photos:size=64").batch(range(4))[0]
    originals = torch.cat([photos[:, :, y : y + 32, x : x + 32] for y in (0, 32) for x in (0, 32)])
    rng = torch.Generator().manual_seed(0)
    guesses, owners, values = [], [], []
    for number, original in enumerate(originals):
        for grade in GRADES.tolist():
            blurred = F.avg_pool2d(original[None], 5, 1, 2)[0]
            noise = torch.rand(original.shape, generator=rng)
            guesses.append(((1 - grade) * original + grade * (0.5 * blurred + 0.5 * noise)).clamp(0, 1))
            owners.append(number)
            values.append(1 - grade)
    return Judged(originals, torch.stack(guesses), torch.tensor(owners), torch.tensor(values))
