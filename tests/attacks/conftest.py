"""A small world to attack: photographs, a tiny sigmoid network, and what its server sees."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from glasshouse import models
from glasshouse.functional.gradients import parameter_gradients, parameter_names
from glasshouse.models.batchnorm import batchnorm_mode
from glasshouse.types import ImageSpec, Observation, SharedUpdate

Watch = Callable[..., Observation]
SPEC = ImageSpec(3, 16, 16, 10)


@pytest.fixture(scope="session")
def small_photos(photos) -> torch.Tensor:
    return nn.functional.interpolate(photos, size=(16, 16), mode="area")


@pytest.fixture(scope="session")
def lenet() -> nn.Module:
    return models.create("lenet:width=8", SPEC, seed=0)


@pytest.fixture(scope="session")
def observe() -> Watch:
    """What a server sees of a batch: the gradient, and nothing of the images."""

    def watch(model: nn.Module, images: torch.Tensor, labels: torch.Tensor, mode="eval", give=False) -> Observation:
        with batchnorm_mode(model, mode):
            gradients = parameter_gradients(model, images, labels)
        spec = ImageSpec(*images.shape[1:], 10)
        shared = SharedUpdate(dict(zip(parameter_names(model), gradients, strict=True)))
        return Observation((shared,), spec, len(images), batchnorm=mode, labels=labels if give else None)

    return watch
