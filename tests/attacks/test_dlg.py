"""DLG recovers an image almost exactly on the network it was made for, and refuses rough ones."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import nn

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
    result = attacks.create("dlg:steps=15,restarts=1")(lenet, seen, rng=rng(3))
    assert float(create_metric("psnr")(truth, result.images)) > 25
    assert result.labels.tolist() == [4]


def test_the_objective_is_the_squared_gradient_distance(lenet, small_photos, observe):
    seen = observe(lenet, small_photos[1:2], torch.tensor([4]))
    few, many = (attacks.create(f"dlg:steps={n},restarts=1")(lenet, seen, rng=rng(1)) for n in (1, 4))
    assert many.objective < few.objective


def test_refuses_networks_that_are_not_smooth(small_photos, observe):
    model = models.create("convnet8:width=2", ImageSpec(3, 16, 16, 10))
    seen = observe(model, small_photos[:1], torch.tensor([1]))
    with pytest.raises(ModelError, match=r"smooth network.*use invgrad"):
        attacks.create("dlg")(model, seen, rng=rng())


class Functional(nn.Module):
    """A network without a single rough module that calls ReLU all the same."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(768, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.relu(self.layer(x.flatten(1)))


def test_refuses_relu_that_is_called_by_itself(small_photos, observe):
    seen = observe(Functional(), small_photos[:1], torch.tensor([1]))
    with pytest.raises(ModelError, match=r"calls relu.*use invgrad"):
        attacks.create("dlg")(Functional(), seen, rng=rng())


@pytest.mark.parametrize(("asked", "kind"), [("no", torch.float32), ("yes", torch.float64)])
def test_computes_in_double_precision_where_asked(lenet, small_photos, observe, asked, kind):
    seen = observe(lenet, small_photos[1:2], torch.tensor([4]))
    kinds = set()
    watching = nn.modules.module.register_module_forward_pre_hook(lambda module, given: kinds.add(given[0].dtype))
    try:
        attack = attacks.create(f"dlg:steps=15,restarts=1,stop_below=0,float64={asked}")
        found = attack(lenet, seen, rng=rng(1))
    finally:
        watching.remove()
    assert kind in kinds
    assert asked == "yes" or kinds == {torch.float32}  # labels are told in single precision
    assert found.images.dtype == next(lenet.parameters()).dtype == torch.float32
    assert found.objective < 1e-3


def test_what_was_best_on_the_way_is_kept(lenet, small_photos, observe, monkeypatch):
    """An optimiser that leaves the valley: the result is where it began, not where it ended."""
    seen = observe(lenet, small_photos[1:2], torch.tensor([4]))

    class Leaving(torch.optim.LBFGS):
        def step(self, closure):
            value = closure()
            with torch.no_grad():
                for one in self.param_groups[0]["params"]:
                    one.add_(3.0)
            return value

    still = attacks.create("dlg:steps=1,restarts=1")
    monkeypatch.setattr(torch.optim, "LBFGS", Leaving)
    once, often = (dataclasses.replace(still, steps=steps)(lenet, seen, rng=rng(1)) for steps in (1, 4))
    assert often.objective <= once.objective
