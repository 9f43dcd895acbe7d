from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional as F

from glasshouse.errors import DataError, WeightsError
from glasshouse.weights.convert import flax_trunk, scripted_inception, torch_convolutions, torch_state


class Hostile:
    """Creates a file when it is unpickled without care."""

    def __init__(self, mark):
        self.mark = str(mark)

    def __reduce__(self):
        return open, (self.mark, "w")


class Block(nn.Module):
    """A layer with the tensors of a scripted Inception block."""

    def __init__(self, value, names=("weight", "beta", "mean", "var")):
        super().__init__()
        for name in names:
            self.register_buffer(name, torch.full((2,), float(value)))

    def forward(self, images):
        return images


@pytest.fixture
def file(tmp_path):
    return tmp_path / "weights.pt"


def test_a_state_dictionary_is_read(file):
    layer = nn.Linear(3, 2)
    torch.save(layer.state_dict(), file)
    assert torch.equal(torch_state(file)["weight"], layer.weight)


def test_tensors_come_contiguous(file):
    torch.save({"a": torch.arange(6).reshape(2, 3).T}, file)
    found = torch_state(file)["a"]
    assert found.is_contiguous()
    assert found.tolist() == [[0, 3], [1, 4], [2, 5]]


REFUSED = {
    "whole model": lambda mark: nn.Linear(3, 2),
    "hostile object": lambda mark: {"weight": Hostile(mark)},
    "a checkpoint": lambda mark: {"model": {"weight": torch.zeros(1)}, "epoch": 3},
    "a tensor": lambda mark: torch.zeros(3),
    "a list": lambda mark: [torch.zeros(3)],
    "an array": lambda mark: {"weight": np.zeros(3)},
}


@pytest.mark.parametrize("make", REFUSED.values(), ids=REFUSED)
def test_what_is_no_state_dictionary_is_refused_by_name_and_not_run(file, tmp_path, make):
    torch.save(make(tmp_path / "mark"), file)
    with pytest.raises(WeightsError, match=r"weights\.pt .*(not a plain|does not hold a) state dictionary"):
        torch_state(file)
    assert not (tmp_path / "mark").exists()


def test_a_refused_checkpoint_says_how_to_convert_it_and_that_works(file, tmp_path, monkeypatch):
    torch.save({"epoch": 3, "model": {"weight": torch.ones(2)}}, file)
    with pytest.raises(WeightsError, match="the entries 'epoch', 'model'") as error:
        torch_state(file)
    monkeypatch.chdir(tmp_path)
    exec(str(error.value).partition("run: ")[2], {})
    assert load_file("weights.safetensors")["weight"].tolist() == [1, 1]


def test_a_pickled_model_says_how_to_save_it_and_that_works(file, tmp_path, monkeypatch):
    torch.save(nn.Linear(2, 1), file)
    with pytest.raises(WeightsError, match="can run anything") as error:
        torch_state(file)
    assert "False" not in str(error.value)  # torch advises weights_only=False
    monkeypatch.chdir(tmp_path)
    exec(str(error.value).partition("run: ")[2], {"model": nn.Linear(2, 1)})
    assert set(load_file("weights.safetensors")) == {"weight", "bias"}


def outcome(path, content):
    path.write_bytes(content)
    try:
        return torch_state(path)
    except WeightsError as error:
        return str(error)


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
@given(content=st.binary(max_size=60), start=st.sampled_from([b"", b"\x80\x02", b"\x80\x02}q\x00", b"PK\x03\x04"]))
@settings(max_examples=50, deadline=None, derandomize=True)
def test_random_bytes_give_tensors_or_a_weights_error(tmp_path_factory, start, content):
    found = outcome(tmp_path_factory.getbasetemp() / "random.pt", start + content)
    assert "random.pt" in found if isinstance(found, str) else isinstance(found, dict)


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
def test_truncated_files_are_refused_by_name(tmp_path, zipped):
    torch.save({"a": torch.zeros(2, 3)}, tmp_path / "whole.pt", _use_new_zipfile_serialization=zipped)
    content = (tmp_path / "whole.pt").read_bytes()
    for length in range(0, len(content), 7):
        assert "cut.pt" in outcome(tmp_path / "cut.pt", content[:length])


def test_the_classifier_of_a_published_network_is_left_out(file):
    torch.save({"features.0.weight": torch.ones(1), "classifier.1.weight": torch.zeros(1)}, file)
    assert set(torch_convolutions(file)) == {"features.0.weight"}


def test_scripted_blocks_are_numbered_in_order(file):
    torch.jit.script(nn.Sequential(Block(1), nn.Sequential(Block(2), Block(3)))).save(str(file))
    found = scripted_inception(file)
    assert set(found) == {f"{n:03d}.{part}" for n in range(3) for part in ("weight", "beta", "mean", "var")}
    assert [float(found[f"{number:03d}.var"][0]) for number in range(3)] == [1, 2, 3]


@pytest.mark.parametrize("names", [("weight", "beta", "mean", "var", "gamma"), ("weight", "bias")])
def test_unexpected_tensors_are_refused_by_name(file, names):
    torch.jit.script(nn.Sequential(Block(1), Block(2, names))).save(str(file))
    with pytest.raises(WeightsError, match=rf"weights\.pt holds an unexpected tensor '1\.{names[-1]}'"):
        scripted_inception(file)


@pytest.fixture
def flax(tmp_path):
    """A small trunk as Flax keeps it: kernels are height, width, inputs, outputs."""
    rng = np.random.default_rng(0)
    layers = {
        f"Conv_{number}": {
            "kernel": rng.normal(size=(3, 5, inputs, outputs)).astype(np.float32),
            "bias": rng.normal(size=outputs).astype(np.float32),
        }
        for number, (inputs, outputs) in enumerate([(3, 4), (4, 2)])
    }
    path = tmp_path / "trunk.ckpt"
    path.write_bytes(pickle.dumps({"Net_0": layers}, protocol=4))
    return path, layers


def test_flax_layers_take_torchvision_names_and_layout(flax):
    path, layers = flax
    found = flax_trunk("Net_0", (0, 3))(path)
    assert {name: tuple(value.shape) for name, value in found.items()} == {
        "features.0.weight": (4, 3, 3, 5),
        "features.0.bias": (4,),
        "features.3.weight": (2, 4, 3, 5),
        "features.3.bias": (2,),
    }
    kernel = layers["Conv_0"]["kernel"]
    assert float(found["features.0.weight"][2, 1, 0, 4]) == kernel[0, 4, 1, 2]
    assert all(value.is_contiguous() for value in found.values())


def test_a_converted_convolution_computes_what_flax_would(flax, rng):
    path, layers = flax
    found = flax_trunk("Net_0", (0, 3))(path)
    image = torch.rand(1, 3, 3, 5, generator=rng)
    kernel = torch.from_numpy(layers["Conv_0"]["kernel"])
    expected = torch.einsum("nchw,hwco->no", image, kernel) + torch.from_numpy(layers["Conv_0"]["bias"])
    result = F.conv2d(image, found["features.0.weight"], found["features.0.bias"]).flatten(1)
    assert torch.allclose(result, expected, atol=1e-5)


def test_a_hostile_flax_file_is_refused_and_not_run(tmp_path):
    (tmp_path / "trunk.ckpt").write_bytes(pickle.dumps({"Net_0": Hostile(tmp_path / "mark")}))
    with pytest.raises(DataError, match=r"trunk\.ckpt asks for"):
        flax_trunk("Net_0", (0,))(tmp_path / "trunk.ckpt")
    assert not (tmp_path / "mark").exists()
