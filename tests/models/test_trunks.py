from __future__ import annotations

import pytest
import torch
from torch import nn

from glasshouse import weights
from glasshouse.models import trunks

LPIPS = {
    "alexnet": [(64, 15), (192, 7), (384, 3), (256, 3), (256, 3)],
    "vgg16": [(64, 64), (128, 32), (256, 16), (512, 8), (512, 4)],
}


def trunk(name):
    if weights.where(name) is None:
        pytest.skip(f"the weights '{name}' are not here: run 'glasshouse weights install'")
    return getattr(trunks, name)()


def test_slices_return_the_activations_at_their_taps():
    layers = nn.Sequential(nn.Flatten(), nn.ReLU(), nn.Identity(), nn.Softmax(dim=1))
    images = torch.tensor([[[-1.0, 2.0]]])
    first, last = trunks.Slices(layers, (1, 3))(images)
    assert first.tolist() == [[0, 2]]
    assert torch.allclose(last, torch.softmax(first, dim=1))


@pytest.mark.parametrize("name", LPIPS)
def test_lpips_trunks_give_five_rectified_activations(name, photos):
    found = trunk(name)(nn.functional.interpolate(photos, 64))
    assert [(one.shape[1], one.shape[2]) for one in found] == LPIPS[name]
    assert all(one.min() >= 0 for one in found)
    assert all(one.flatten(1).std(dim=0).max() > 0 for one in found)


@pytest.mark.parametrize("name", [*LPIPS, "inception_fid"])
def test_trunks_are_frozen_and_loaded_once(name):
    found = trunk(name)
    assert found is trunk(name)
    assert not found.training
    assert not any(parameter.requires_grad for parameter in found.parameters())


def test_inception_gives_2048_features_that_tell_photographs_apart(photos):
    features = trunk("inception_fid")(photos)
    distances = torch.cdist(features, features)
    assert features.shape == (4, 2048)
    assert features.min() >= 0
    assert distances[~torch.eye(4, dtype=torch.bool)].min() > 1


def test_inception_takes_every_weight_of_the_file():
    blocks = [module for module in trunk("inception_fid").modules() if isinstance(module, trunks.inception.BasicConv2d)]
    assert 4 * len(blocks) == len(weights.load("inception_fid"))


def test_the_average_of_fid_leaves_the_border_out():
    assert torch.equal(trunks._average(torch.ones(1, 1, 4, 4)), torch.ones(1, 1, 4, 4))


def test_inceptions_middle_is_what_the_whole_goes_through(rng):
    trunk = trunks.InceptionFID().eval()
    images = torch.rand(1, 3, 96, 96, generator=rng)
    seen = []
    trunk.network.Mixed_6b.register_forward_hook(lambda layer, given, made: seen.append(made))
    with torch.no_grad():
        trunk.look(images)
        found = trunk.middle(images)
    assert found.shape == (1, 768, 4, 4)
    assert torch.equal(found, seen[0])
