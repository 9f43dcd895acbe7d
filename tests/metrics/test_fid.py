"""FID against torchmetrics given the same features."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torchmetrics.image.fid import FrechetInceptionDistance

from glasshouse import weights
from glasshouse.errors import DataError, NotDefinedError
from glasshouse.metrics import create
from glasshouse.metrics.fid import FID
from glasshouse.types import ImageSpec

SPEC = ImageSpec(3, 32, 32, 10)


class Given(nn.Module):
    """Features that were computed before, so that both sides compute from the same."""

    num_features = 128

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return features


def test_against_torchmetrics(rng):
    if weights.where("inception_fid") is None:
        pytest.skip("the weights are not here: run 'glasshouse weights install'")
    truth = torch.rand(6, 3, 32, 32, generator=rng)
    mine = create("fid")
    mine.update(truth[:2], truth[:2] * 0.7)
    mine.update(truth[2:], truth[2:] * 0.7)
    assert torch.cat(mine.truths).shape == (6, 2048)
    # mixtures of real features: as many as it wants, without the time that the network would take for them
    mixtures = torch.rand(FID.fewest, 6, generator=rng)
    mine.truths, mine.guesses = ([mixtures @ torch.cat(one)[:, :128]] for one in (mine.truths, mine.guesses))
    theirs = FrechetInceptionDistance(feature=Given()).set_dtype(torch.float64)
    theirs.update(torch.cat(mine.truths).double(), real=True)
    theirs.update(torch.cat(mine.guesses).double(), real=False)
    assert mine.compute() == pytest.approx(float(theirs.compute()), rel=1e-4)


def test_not_defined_for_a_handful(rng):
    metric = create("fid")
    assert "under 50 images" in metric.why_not(SPEC, FID.fewest - 1)
    assert metric.why_not(SPEC, FID.fewest) is None
    with pytest.raises(NotDefinedError, match="under 50"):
        metric.compute()
    with pytest.raises(DataError):
        metric.update(torch.rand(2, 3, 8, 8, generator=rng), torch.rand(1, 3, 8, 8, generator=rng))
