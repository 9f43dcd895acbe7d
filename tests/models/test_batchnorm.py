from __future__ import annotations

import pytest
import torch
from torch import nn

from glasshouse.models.batchnorm import batchnorm_layers, batchnorm_mode


@pytest.fixture
def model(rng):
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Dropout(0.5), nn.Flatten())
    model[1].running_mean.uniform_(-1, 1, generator=rng)
    return model.eval()


@pytest.fixture
def images(rng):
    return torch.rand(5, 3, 8, 8, generator=rng)


def state(model):
    return {name: value.clone() for name, value in model.state_dict().items()}


def modes(model):
    return [(module.training, getattr(module, "track_running_stats", None)) for module in model.modules()]


def test_layers_of_every_dimension_are_found():
    model = nn.Sequential(nn.BatchNorm1d(2), nn.Sequential(nn.BatchNorm2d(2), nn.BatchNorm3d(2)), nn.LayerNorm(2))
    assert batchnorm_layers(model) == [model[0], model[1][0], model[1][1]]


def test_train_mode_uses_the_statistics_of_the_batch(model, images):
    features = model[0](images)
    mean, variance = features.mean((0, 2, 3)), features.var((0, 2, 3), unbiased=False)
    expected = (features - mean[:, None, None]) / (variance[:, None, None] + model[1].eps).sqrt()
    with batchnorm_mode(model, "train"):
        assert torch.allclose(model(images), expected.flatten(1), atol=1e-5)


def test_eval_mode_uses_the_running_statistics(model, images):
    expected = model(images)
    model.train()
    with batchnorm_mode(model, "eval"):
        assert torch.equal(model(images), expected)


@pytest.mark.parametrize("mode", ["eval", "train"])
@pytest.mark.parametrize("training", [False, True])
def test_statistics_and_modes_are_restored(model, images, mode, training):
    model.train(training)
    model[2].training = not training
    before, before_modes = state(model), modes(model)
    with batchnorm_mode(model, mode):
        model(images)
    assert modes(model) == before_modes
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_statistics_and_modes_are_restored_after_an_exception(model, images):
    model.train()
    before, before_modes = state(model), modes(model)

    def fail():
        with batchnorm_mode(model, "train"):
            model(images)
            raise KeyError("inside")

    with pytest.raises(KeyError, match="inside"):
        fail()
    assert modes(model) == before_modes
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize("mode", ["eval", "train"])
def test_dropout_stays_off(model, images, mode):
    model.train()
    with batchnorm_mode(model, mode):
        assert torch.equal(model(images), model(images))
        assert not model[2].training
