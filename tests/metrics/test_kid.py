"""KID against torchmetrics given the same features."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torchmetrics.image.kid import KernelInceptionDistance

from glasshouse.errors import DataError, NotDefinedError
from glasshouse.metrics import create
from glasshouse.metrics.kid import KID
from glasshouse.models import trunks
from glasshouse.types import ImageSpec

SPEC = ImageSpec(3, 32, 32, 10)


class Given(nn.Module):
    """Features that were computed before, so that both sides compute from the same."""

    num_features = 64

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return features


def given(truths: torch.Tensor, guesses: torch.Tensor) -> KID:
    metric = create("kid")
    metric.truths, metric.guesses = [truths], [guesses]
    return metric


@pytest.mark.filterwarnings("ignore:Metric `Kernel Inception Distance`")
def test_against_torchmetrics(rng):
    truths = torch.randn((60, 64), generator=rng)
    guesses = 0.7 * torch.randn((60, 64), generator=rng) + 0.2
    theirs = KernelInceptionDistance(feature=Given(), subsets=1, subset_size=60)  # the whole set at once, as ours
    theirs.update(truths, real=True)
    theirs.update(guesses, real=False)
    assert given(truths, guesses).compute() == pytest.approx(float(theirs.compute()[0]), rel=1e-4)


def test_pictures_further_from_the_truth_are_further(photos, rng, monkeypatch):
    monkeypatch.setattr(trunks, "inception_fid", lambda: nn.Sequential(nn.AvgPool2d(4), nn.Flatten()))  # cheap features
    truth = photos.repeat(3, 1, 1, 1)
    noise = torch.randn(truth.shape, generator=rng)
    values = []
    for sigma in (0.0, 0.1, 0.5):
        guess = (truth + sigma * noise).clamp(0, 1)
        metric = create("kid")
        metric.update(truth[:6], guess[:6])
        metric.update(truth[6:], guess[6:])
        assert torch.cat(metric.truths).shape == (12, 192)
        values.append(metric.compute())
    assert values[0] < values[1] < values[2]
    assert values[0] < 0  # a copy is nearer to its truth than two truths are to each other


def test_not_defined_for_a_handful(rng):
    metric = create("kid")
    assert metric.why_not(SPEC, KID.fewest - 1) == "KID is not defined under 10 images, here are 9"
    assert metric.why_not(SPEC, KID.fewest) is None
    with pytest.raises(NotDefinedError, match="KID is not defined under 10"):
        metric.compute()
    with pytest.raises(DataError):
        metric.update(torch.rand(2, 3, 8, 8, generator=rng), torch.rand(1, 3, 8, 8, generator=rng))
