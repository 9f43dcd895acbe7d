from __future__ import annotations

import pytest
from torch import nn

from glasshouse.models.resnet18 import ResNet18
from glasshouse.models.vision import torchvision_network
from glasshouse.torchvision_cpu import allow_cpu_torchvision
from glasshouse.types import ImageSpec

GREY = ImageSpec(1, 28, 28, 10)


@pytest.mark.parametrize(
    ("stem", "kernel", "stride", "padding"), [("small", (3, 3), (1, 1), (1, 1)), ("imagenet", (7, 7), (2, 2), (3, 3))]
)
def test_the_first_convolution_follows_the_stem(stem, kernel, stride, padding):
    layer = ResNet18(stem=stem).first_convolution(GREY, 64, 7)
    assert (layer.in_channels, layer.out_channels, layer.bias) == (1, 64, None)
    assert (layer.kernel_size, layer.stride, layer.padding) == (kernel, stride, padding)


def test_only_the_published_stem_pools():
    pool = nn.MaxPool2d(2)
    assert ResNet18(stem="imagenet").first_pool(pool) is pool
    assert isinstance(ResNet18(stem="small").first_pool(pool), nn.Identity)


def test_a_torchvision_network_has_as_many_outputs_as_classes():
    assert torchvision_network("resnet18", GREY).fc.out_features == 10


def test_torchvision_imports_beside_a_cpu_only_torch():
    """The first call was before all tests; a second does no harm."""
    allow_cpu_torchvision()
    from torchvision.models import resnet18

    assert resnet18.__name__ == "resnet18"
