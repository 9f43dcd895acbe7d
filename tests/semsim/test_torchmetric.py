"""SemSim in torchmetrics: a network of its own that a module around it neither trains nor takes from others."""

from __future__ import annotations

import pytest
import torch

from glasshouse.errors import DataError, SettingError
from glasshouse.metrics import create
from glasshouse.semsim import Embedding, save, shipped
from glasshouse.semsim.torchmetric import SemSimMetric


def test_inside_a_module_that_is_trained_nothing_changes(tmp_path, photos):
    save(Embedding("resnet18", 32), tmp_path / "own.safetensors")
    metric = SemSimMetric(str(tmp_path / "own.safetensors"), reduction="none")
    before = {name: value.clone() for name, value in metric.network.state_dict().items()}
    metric.update(photos, photos.flip(0))
    module = torch.nn.ModuleDict({"metric": metric}).train()
    module["metric"].update(photos, photos.flip(0))
    assert metric.training
    assert torch.equal(*metric.compute().chunk(2))
    after = metric.network.state_dict()
    assert all(torch.equal(value, after[name]) for name, value in before.items())


def test_images_of_another_precision_are_taken(photos):
    metric = SemSimMetric(reduction="none")
    metric.update(photos, photos.flip(0))
    metric.update(photos.double(), photos.flip(0).double())
    assert torch.equal(*metric.compute().chunk(2))


def test_both_forms_are_those_of_the_metric(photos):
    for form in ("l2", "cosine"):
        metric = SemSimMetric(reduction="none", form=form)
        metric.update(photos, photos.flip(0))
        torch.testing.assert_close(metric.compute(), create(f"semsim:form={form}")(photos, photos.flip(0)))
    with pytest.raises(SettingError, match="form=angle"):
        SemSimMetric(form="angle")


def test_what_becomes_of_one_metric_is_nobody_elses():
    metric = SemSimMetric().set_dtype(torch.float64)
    assert metric.network.calibration.dtype == torch.float64
    assert shipped().calibration.dtype == SemSimMetric().network.calibration.dtype == torch.float32


@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_without_pairs_there_is_nothing_to_compute(reduction, photos):
    metric = SemSimMetric(reduction=reduction)
    with pytest.raises(SettingError, match="call update before compute"), pytest.warns(UserWarning, match="compute"):
        metric.compute()
    with pytest.raises(DataError, match="truth is of type ndarray"):
        metric.update(photos.numpy(), photos.numpy())
    with pytest.raises(DataError, match="2 channels"):
        metric.update(photos[:, :2], photos[:, :2])


def test_values_of_several_processes_are_gathered(photos):
    metric = SemSimMetric(
        reduction="none", dist_sync_fn=lambda value, group: [value, value], distributed_available_fn=lambda: True
    )
    metric.update(photos, photos.flip(0))
    assert len(metric.compute()) == 2 * len(photos)
