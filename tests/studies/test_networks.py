"""Weights that were trained behind a defense which changes networks find the network they fit."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from glasshouse import defenses
from glasshouse.errors import WeightsError
from glasshouse.models import own
from glasshouse.studies.networks import trained_network
from glasshouse.types import ImageSpec

SPEC = ImageSpec(3, 16, 16, 10)


def test_dp_sgd_weights_come_back_with_group_norm(tmp_path):
    guard = defenses.create("dp_sgd:epsilon=inf")
    network = guard.on_model(own.build("resnet20:width=4", SPEC, seed=1))
    file = tmp_path / "w.safetensors"
    file.write_bytes(own.to_weights(network, behind=guard.complete_spec))
    found = trained_network("resnet20:width=4", SPEC, file)
    assert any(isinstance(layer, nn.GroupNorm) for layer in found.modules())
    images = torch.rand(2, 3, 16, 16)
    torch.testing.assert_close(found.eval()(images), network.eval()(images))
    file.write_bytes(own.to_weights(network))
    with pytest.raises(WeightsError, match="dp_sgd, which replaces batch norm"):
        trained_network("resnet20:width=4", SPEC, file)


def test_weights_without_a_note_are_plain(tmp_path):
    file = tmp_path / "w.safetensors"
    file.write_bytes(own.to_weights(own.build("lenet", SPEC)))
    assert own.trained_behind(file) is None
    trained_network("lenet", SPEC, file)
