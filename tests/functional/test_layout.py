"""Images lie plane by plane, also where one channel makes that ambiguous."""

from __future__ import annotations

import pytest
import torch

from glasshouse import data, models
from glasshouse.functional.layout import planar, swiftest
from glasshouse.training import Recipe, fit
from glasshouse.training.client import Client, Computed, Samples, plain_gradients
from glasshouse.types import ImageSpec


@pytest.mark.parametrize("channels", [1, 3])
def test_strides_are_those_of_planes(channels):
    images = torch.rand(2, 5, 7, channels).permute(0, 3, 1, 2)
    found = planar(images)
    assert torch.equal(found, images)
    assert found.stride() == (channels * 35, 35, 7, 1)
    assert planar(found) is found


def test_data_sets_give_planes():
    images, _ = data.load("digits").batch([0, 1])
    assert images.stride() == (64, 64, 8, 1)


def test_a_narrow_network_trains_on_grey_images(forked):
    code = """
import torch
from glasshouse import models
from glasshouse.training import Recipe, fit
from glasshouse.types import ImageSpec
torch.set_num_threads(1)
images = torch.rand(12, 32, 32, 1).permute(0, 3, 1, 2)
model = models.create("resnet20:width=8", ImageSpec(1, 32, 32, 10))
fit(model, images, torch.arange(12) % 10, Recipe(epochs=3, batch=6))
"""
    assert forked(code).returncode == 0


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", ["shufflenet_v2:stem=imagenet", "resnet20", "lenet"])
@pytest.mark.parametrize("kind", [torch.float, torch.double])
def test_the_swiftest_way_computes_the_same(kind, name, channels):
    model = models.create(name, ImageSpec(channels, 32, 32, 10)).to(kind).eval()
    samples = Samples(torch.rand(4, channels, 32, 32, dtype=kind), torch.arange(4))
    plain = plain_gradients(model, samples)
    with swiftest(model, samples.images[:1]) as lay:
        assert any(
            part.weight.stride(1) == 1 < part.weight.shape[1]
            for part in model.modules()
            if isinstance(part, torch.nn.Conv2d)
        )
        swift = plain_gradients(model, Samples(lay(samples.images), samples.targets))
    assert swift.loss == pytest.approx(plain.loss, rel=1e-5)
    near = 1e-2 if kind == torch.float else 1e-9  # roundings may put a ReLU on the other side
    for name, value in plain.gradients.items():
        assert (swift.gradients[name] - value).norm() <= near * max(value.norm(), 1e-3)
    assert all(value.is_contiguous() for value in model.state_dict().values())


@pytest.mark.parametrize("name", ["resnet20:width=8", "mlp"])
def test_networks_that_would_crash_or_gain_nothing_stay_as_they_are(name):
    model = models.create(name, ImageSpec(3, 32, 32, 10))
    with swiftest(model, torch.rand(1, 3, 32, 32)) as lay:
        assert lay is planar
        assert all(value.is_contiguous() for value in model.state_dict().values())


class Viewing(torch.nn.Module):
    """Flattens as most people do, which channels innermost do not allow."""

    def __init__(self):
        super().__init__()
        self.convolution = torch.nn.Conv2d(3, 4, 3)
        self.linear = torch.nn.Linear(4 * 14 * 14, 10)

    def forward(self, images):
        features = self.convolution(images)
        return self.linear(features.view(len(features), -1))


def test_a_network_that_views_is_trained_plane_by_plane():
    model = Viewing()
    with swiftest(model, torch.rand(1, 3, 16, 16)) as lay:
        assert lay is planar
        assert all(value.is_contiguous() for value in model.state_dict().values())
    loss = fit(model, torch.rand(8, 3, 16, 16), torch.arange(8), Recipe(epochs=2, batch=4, lr=0.01))
    assert loss > 0


def test_after_an_error_a_network_lies_as_before():
    model = models.create("lenet", ImageSpec(3, 32, 32, 10))
    with pytest.raises(ZeroDivisionError), swiftest(model, torch.rand(1, 3, 32, 32)):
        _ = 1 / 0
    assert all(value.is_contiguous() for value in model.state_dict().values())


class PlaneByPlane(Client):
    """Hands in gradients that lie plane by plane, whatever way the network lies."""

    def gradients(self, model, samples):
        found = plain_gradients(model, samples)
        return Computed(found.loss, {name: value.contiguous() for name, value in found.gradients.items()})


def test_training_takes_gradients_whatever_way_they_lie():
    trained = []
    for client in (Client(), PlaneByPlane()):
        model = models.create("lenet", ImageSpec(3, 16, 16, 10), seed=0)
        images = torch.rand(8, 3, 16, 16, generator=torch.Generator().manual_seed(0))
        fit(model, images, torch.arange(8), Recipe(epochs=2, batch=4), client=client)
        trained.append(torch.nn.utils.parameters_to_vector(model.parameters()))
    assert torch.equal(*trained)
