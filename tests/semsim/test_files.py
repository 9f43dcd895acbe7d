"""Networks survive their files; files that are damaged, hostile or foreign are refused."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from glasshouse.errors import WeightsError
from glasshouse.metrics.semsim import SemSim
from glasshouse.semsim import Embedding, Perceptual, files, load, notes, save


@pytest.mark.parametrize("make", [lambda: Perceptual(64), lambda: Embedding("lenet:spread=0.1", 32)])
def test_there_and_back(tmp_path, photos, make):
    torch.manual_seed(0)
    network = make().eval()
    network.calibration.copy_(torch.tensor([1.25, 3.5]))
    save(network, tmp_path / "own.safetensors", judges="classifiers")
    again = load(tmp_path / "own.safetensors")
    with torch.no_grad():
        assert torch.allclose(
            again.distances(photos, photos.flip(0)), network.distances(photos, photos.flip(0)), atol=1e-2
        )
    assert torch.equal(again.calibration, network.calibration)
    assert not any(value.requires_grad for value in again.parameters())


@pytest.mark.parametrize("value", [torch.nan, torch.inf, 1e6])
def test_what_half_precision_cannot_hold_is_not_written(tmp_path, value):
    network = Perceptual(64)
    with torch.no_grad():
        network.weights[0] = value
    with pytest.raises(WeightsError, match="would hold NaN or values beyond half precision"):
        save(network, tmp_path / "own.safetensors")
    assert not any(tmp_path.iterdir())


def test_nothing_is_overwritten(tmp_path):
    (tmp_path / "own.safetensors").write_bytes(b"precious")
    with pytest.raises(WeightsError, match="is there already"):
        save(Perceptual(64), tmp_path / "own.safetensors")
    assert (tmp_path / "own.safetensors").read_bytes() == b"precious"


def test_a_network_that_was_trained_anew_under_one_name_is_another(tmp_path, photos):
    file, values = tmp_path / "own.safetensors", []
    for seed in (0, 1):
        file.unlink(missing_ok=True)
        save(Embedding("lenet:spread=0.1", 32, seed=seed), file)
        metric = SemSim(file=str(file))
        values.append((metric.edition, metric(photos, photos.flip(0)).tolist()))
    assert values[0][0] != values[1][0]
    assert values[0][1] != values[1][1]


def test_refused(tmp_path):
    file = tmp_path / "own.safetensors"
    with pytest.raises(WeightsError, match="There is no SemSim file"):
        load(file)
    file.write_bytes(b"\x80\x04not safetensors")
    with pytest.raises(WeightsError, match="damaged"):
        load(file)
    save_file({"a": torch.zeros(1)}, file)
    with pytest.raises(WeightsError, match="does not say"):
        load(file)
    built = {"schema": 1, "kind": "perceptual", "backbone": "alexnet", "size": 64}
    save_file({"a": torch.zeros(1)}, file, metadata={"glasshouse": json.dumps(built)})
    with pytest.raises(WeightsError, match="does not fit"):
        load(file)
    save_file({"a": torch.zeros(1)}, file, metadata={"glasshouse": json.dumps({**built, "size": 10**9})})
    with pytest.raises(WeightsError, match="cannot be built"):
        load(file)
    huge = {**built, "kind": "embedding", "backbone": "resnet20:width=100000"}
    save_file({"a": torch.zeros(1)}, file, metadata={"glasshouse": json.dumps(huge)})
    with pytest.raises(WeightsError, match="cannot be built"):
        load(file)


def test_hostile_or_unreadable(tmp_path, monkeypatch):
    file = tmp_path / "own.safetensors"
    save_file({"a": torch.zeros(1)}, file, metadata={"glasshouse": "[" * 200_000})
    with pytest.raises(WeightsError, match="damaged or no SemSim network"):
        load(file)
    for read in (load, notes):
        with pytest.raises(WeightsError, match="File name too long"):
            read(tmp_path / ("long" * 100))
        with pytest.raises(WeightsError, match="There is no SemSim file"):
            read(tmp_path)

    def forbidden(*anything, **settings):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(files, "safe_open", forbidden)
    with pytest.raises(WeightsError, match="Permission denied"):
        load(file)


def test_a_file_of_an_older_version(tmp_path):
    save(Perceptual(64), tmp_path / "new.safetensors")
    tensors = load_file(tmp_path / "new.safetensors")
    del tensors["haze"]
    built = {"schema": 1, "kind": "perceptual", "backbone": "alexnet", "size": 64}
    save_file(tensors, tmp_path / "old.safetensors", metadata={"glasshouse": json.dumps(built)})
    with pytest.raises(WeightsError, match=r"trained by an older version.*train it anew"):
        load(tmp_path / "old.safetensors")


def test_cut_or_poisoned(tmp_path):
    save(Perceptual(64), tmp_path / "whole.safetensors")
    whole = (tmp_path / "whole.safetensors").read_bytes()
    (tmp_path / "cut.safetensors").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(WeightsError, match="damaged"):
        load(tmp_path / "cut.safetensors")
    tensors = load_file(tmp_path / "whole.safetensors")
    tensors["weights"][0] = torch.nan
    built = {"schema": 1, "kind": "perceptual", "backbone": "alexnet", "size": 64}
    save_file(tensors, tmp_path / "nan.safetensors", metadata={"glasshouse": json.dumps(built)})
    with pytest.raises(WeightsError, match="NaN"):
        load(tmp_path / "nan.safetensors")
