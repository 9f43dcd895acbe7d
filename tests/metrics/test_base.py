"""What every metric keeps: identical images leak most, growing noise leaks less, one value per image."""

from __future__ import annotations

import math

import pytest
import torch

from glasshouse import weights
from glasshouse.errors import DataError
from glasshouse.metrics import Metric, create, metrics

SINGLE = [name for name in metrics.names() if issubclass(metrics.get(name), Metric)]
NEEDS = {"lpips": ("alexnet", "lpips_alex")}


def metric_or_skip(spec: str) -> Metric:
    for name in NEEDS.get(spec.partition(":")[0], ()):
        if weights.where(name) is None:
            pytest.skip(f"the weights {name} are not here: run 'glasshouse weights install'")
    found = create(spec)
    assert isinstance(found, Metric)
    return found


@pytest.mark.parametrize("name", SINGLE)
def test_moves_the_right_way_under_growing_noise(name, photos, rng):
    metric = metric_or_skip(name)
    noise = torch.randn(photos.shape, generator=rng)
    sign = 1 if metric.leaks_when == "high" else -1
    levels = [sign * metric(photos, (photos + sigma * noise).clamp(0, 1)).mean() for sigma in (0.02, 0.1, 0.3)]
    assert levels[0] > levels[1] > levels[2]
    assert (sign * metric(photos, photos) >= levels[0]).all()


@pytest.mark.parametrize("name", SINGLE)
def test_images_from_numpy_have_double_precision_and_the_same_value(name, photos):
    metric, guess = metric_or_skip(name), photos.flip(0)
    torch.testing.assert_close(
        metric(photos.double(), guess.double()).float(), metric(photos, guess).float(), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("name", SINGLE)
def test_one_value_per_image_whatever_the_batch(name, photos, rng):
    metric = metric_or_skip(name)
    guess = torch.rand(photos.shape, generator=rng)
    together = metric(photos, guess)
    alone = torch.cat([metric(photos[i : i + 1], guess[i : i + 1]) for i in range(len(photos))])
    assert together.shape == (len(photos),)
    torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", SINGLE)
def test_symmetric_and_grey(name, photos, rng):
    metric = metric_or_skip(name)
    guess = torch.rand(photos.shape, generator=rng)
    torch.testing.assert_close(metric(photos, guess), metric(guess, photos), rtol=1e-4, atol=1e-5)
    assert metric(photos[:, :1], guess[:, :1]).shape == (len(photos),)


@pytest.mark.parametrize("name", SINGLE)
def test_values_and_intervals_of_few_stay_within_bounds(name, photos, rng):
    metric = metric_or_skip(name)
    least, most = metric.bounds
    for guess in (photos, 1 - photos, torch.rand(photos.shape, generator=rng)):
        values = metric(photos, guess)
        assert ((values >= least - 1e-6) & (values <= most + 1e-6)).all()
    for end in filter(math.isfinite, metric.bounds):
        found = metric.mean([end, 0.5])  # Student's t of two values reaches far beyond both
        assert end in (found.low, found.high)
        assert least <= found.low <= found.mean <= found.high <= most


@pytest.mark.parametrize("name", SINGLE)
def test_bad_pairs_are_refused(name, photos):
    with pytest.raises(DataError, match="differ in shape"):
        create(name)(photos, photos[:2])


@pytest.mark.parametrize("name", ["lpips", "semsim", "fid"])
def test_networks_refuse_what_is_neither_grey_nor_coloured(name):
    two = torch.rand(2, 2, 16, 16)
    metric = create(name)
    with pytest.raises(DataError, match="2 channels"):
        metric(two, two) if isinstance(metric, Metric) else metric.update(two, two)
