"""DLG recovers an image almost exactly on the network it was made for, and refuses rough ones."""

from __future__ import annotations

import pytest
import torch

from glasshouse import models
from glasshouse.attacks import attacks
from glasshouse.errors import ModelError
from glasshouse.metrics import create as create_metric
from glasshouse.types import ImageSpec


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_recovers_image_and_label(lenet, small_photos, observe):
    truth = small_photos[1:2]
    seen = observe(lenet, truth, torch.tensor([4]))
    result = attacks.create("dlg:steps=60")(lenet, seen, rng=rng(1))
    assert float(create_metric("psnr")(truth, result.images)) > 25
    assert result.labels.tolist() == [4]


def test_the_objective_is_the_squared_gradient_distance(lenet, small_photos, observe):
    seen = observe(lenet, small_photos[1:2], torch.tensor([4]))
    few, many = (attacks.create(f"dlg:steps={n},restarts=1")(lenet, seen, rng=rng(1)) for n in (1, 15))
    assert many.objective < few.objective


def test_refuses_networks_that_are_not_smooth(small_photos, observe):
    model = models.create("convnet8:width=2", ImageSpec(3, 16, 16, 10))
    seen = observe(model, small_photos[:1], torch.tensor([1]))
    with pytest.raises(ModelError, match=r"smooth network.*use invgrad"):
        attacks.create("dlg")(model, seen, rng=rng())
