"""Weights of ImageNet in MobileNetV2."""

from __future__ import annotations

import pytest
import torch

from glasshouse import models
from glasshouse.errors import ModelError
from glasshouse.models import trunks
from glasshouse.registry import complete_spec
from glasshouse.types import ImageSpec

COLOUR = ImageSpec(3, 32, 32, 10)
SPEC = "mobilenet_v2:stem=imagenet,pretrained=true"


def test_it_sees_what_the_published_trunk_sees():
    images = torch.rand(2, 3, 64, 64)
    network = models.create(SPEC, COLOUR).network
    assert torch.equal(network.features(images), trunks.mobilenet_v2()(images))
    assert network.classifier[1].out_features == 10


def test_grey_images_are_seen_as_three_equal_colours():
    images = torch.rand(2, 1, 64, 64)
    grey, colour = (models.create(SPEC, ImageSpec(channels, 64, 64, 10)).network for channels in (1, 3))
    assert torch.allclose(grey.features(images), colour.features(images.expand(-1, 3, -1, -1)), atol=1e-4)


def test_a_seed_draws_the_last_layer_alone():
    first, second = (models.create(SPEC, COLOUR, seed=seed).state_dict() for seed in (0, 1))
    differ = {name for name, value in first.items() if not torch.equal(value, second[name])}
    assert differ == {"network.classifier.1.weight"}


def test_other_channels_are_refused():
    with pytest.raises(ModelError, match="not with 2 channels"):
        models.create(SPEC, ImageSpec(2, 32, 32, 10))


def test_networks_from_before_the_setting_are_found_again():
    spec = {name: models.models.create(name).meaning for name in ("mobilenet_v2", "mobilenet_v2:pretrained=true")}
    assert spec["mobilenet_v2"] == "mobilenet_v2:stem=small"
    assert spec["mobilenet_v2:pretrained=true"] == "mobilenet_v2:stem=small,pretrained=true"
    assert complete_spec(models.models.create(spec["mobilenet_v2"])) == spec["mobilenet_v2"]
