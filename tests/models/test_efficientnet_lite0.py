"""EfficientNet-lite0 knows what photographs show, which it only does with every weight in its place."""

from __future__ import annotations

import pytest
import torch
from skimage import data
from torch.nn import functional as F

from glasshouse import weights
from glasshouse.models.efficientnet_lite0 import STAGES, EfficientNetLite0, Same, efficientnet_lite0


@pytest.mark.parametrize(("name", "classes"), [("chelsea", {281, 282, 285}), ("coffee", {967, 968})])
def test_names_what_is_there(name, classes):
    if weights.where("efficientnet_lite0") is None:
        pytest.skip("the weights are not here: run 'glasshouse weights install'")
    photo = torch.from_numpy(getattr(data, name)()).permute(2, 0, 1)[None] / 255
    side = min(photo.shape[-2:])
    top, left = (photo.shape[2] - side) // 2, (photo.shape[3] - side) // 2
    square = photo[:, :, top : top + side, left : left + side]
    network = efficientnet_lite0()
    with torch.no_grad():
        found = network.classifier(network(F.interpolate(square, size=(224, 224), mode="bilinear", antialias=True)))
    assert int(found.argmax()) in classes


@pytest.mark.parametrize(("size", "kernel", "stride"), [(8, 3, 2), (7, 3, 2), (8, 5, 2), (9, 5, 1)])
def test_pads_as_tensorflow_does(size, kernel, stride):
    """As many outputs as inputs over stride, rounded up; the odd pixel of padding comes last."""
    layer = Same(1, 1, kernel, stride, bias=False)
    torch.nn.init.ones_(layer.weight)
    found = layer(torch.ones(1, 1, size, size))
    assert found.shape[-1] == -(-size // stride)
    total = max((found.shape[-1] - 1) * stride + kernel - size, 0)
    assert found[0, 0, 0, 0].item() == (kernel - total // 2) ** 2


def test_the_middle_is_what_the_whole_goes_through(rng):
    network = EfficientNetLite0().eval()
    images = torch.rand(1, 3, 64, 64, generator=rng)
    seen = []
    network.layers[3 + sum(times for times, *_ in STAGES[:5]) - 1].register_forward_hook(
        lambda layer, given, made: seen.append(made)
    )
    with torch.no_grad():
        network(images)
        found = network.middle(images)
    assert found.shape == (1, 112, 4, 4)
    assert torch.equal(found, seen[0])
