from __future__ import annotations

import logging
import pickle
import subprocess
import sys

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from glasshouse import models
from glasshouse.errors import ModelError, WeightsError
from glasshouse.models import own
from glasshouse.types import ImageSpec

IMAGE = ImageSpec(3, 8, 8, 4)
NET = """
from torch import nn

def make():
    return nn.Sequential(nn.Flatten(), nn.Linear(192, 4))

def number():
    return 3

text = "no function"
"""


class Hostile:
    """Creates a file when it is unpickled without care."""

    def __init__(self, mark):
        self.mark = str(mark)

    def __reduce__(self):
        return open, (self.mark, "w")


def network(outputs=4):
    return nn.Sequential(nn.Flatten(), nn.Linear(192, outputs)).eval()


@pytest.fixture
def net(tmp_path):
    path = tmp_path / "net.py"
    path.write_text(NET)
    return path


@pytest.mark.parametrize(
    ("text", "expected"), [("net.py:make", True), ("a/b.py", True), ("lenet", False), ("lenet:width=3", False)]
)
def test_is_own_tells_files_from_specs(text, expected):
    assert own.is_own(text) is expected


def test_a_factory_builds_by_the_seed(net):
    first, again, other = (own.build(f"{net}:make", IMAGE, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(first[1].weight, again[1].weight)
    assert not torch.equal(first[1].weight, other[1].weight)


def test_a_spec_builds_a_registered_model():
    model = own.build("lenet:width=3", IMAGE, seed=5)
    expected = models.create("lenet:width=3", IMAGE, seed=5)
    assert torch.equal(model.network[0].weight, expected.network[0].weight)


def test_a_file_may_hold_dataclasses(tmp_path):
    (tmp_path / "net.py").write_text(
        "from __future__ import annotations\nfrom dataclasses import dataclass\nfrom torch import nn\n"
        "@dataclass\nclass Settings:\n    width: int = 4\n"
        "def make():\n    return nn.Linear(192, Settings().width)\n"
    )
    assert own.build(f"{tmp_path / 'net.py'}:make", IMAGE).out_features == 4


@pytest.mark.parametrize(
    ("suffix", "reason"),
    [
        (":missing", "defines no function 'missing'"),
        (":text", "defines no function 'text'"),
        (":number", "returned int: return a torch.nn.Module"),
        ("", "names no factory: write FILE.py:FACTORY"),
        (":", "names no factory"),
        (":not a name", "names no factory"),
    ],
)
def test_a_factory_that_is_none_is_refused(net, suffix, reason):
    with pytest.raises(ModelError, match=reason):
        own.build(f"{net}{suffix}", IMAGE)


def test_a_missing_file_is_refused_by_name(tmp_path):
    with pytest.raises(ModelError, match=r"no file .*nowhere\.py"):
        own.build(f"{tmp_path}/nowhere.py:make", IMAGE)


def test_a_file_may_import_torchvision_before_anything_else_has(tmp_path):
    (tmp_path / "net.py").write_text("from torchvision.models import squeezenet1_1 as make\n")
    program = f"""
import sys
from glasshouse.models import own
from glasshouse.types import ImageSpec
assert "torchvision" not in sys.modules
own.build({str(tmp_path / "net.py:make")!r}, ImageSpec(3, 32, 32, 10))
"""
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("source", ["def make(:\n", "import a_package_that_is_not_there\n"])
def test_a_file_that_cannot_be_imported_is_refused_by_name(net, source):
    net.write_text(source)
    with pytest.raises(ModelError, match=r"net\.py cannot be imported"):
        own.build(f"{net}:make", IMAGE)


@pytest.mark.parametrize("suffix", [".safetensors", ".pt", ".pth"])
def test_weights_that_fit_are_loaded(tmp_path, suffix):
    source, target = network(), network()
    path = tmp_path / f"weights{suffix}"
    (save_file if suffix == ".safetensors" else torch.save)(source.state_dict(), path)
    own.load_weights(target, path)
    assert torch.equal(target[1].weight, source[1].weight)
    assert torch.equal(target[1].bias, source[1].bias)


@pytest.mark.parametrize("wrapped", [False, True], ids=["without prefix", "with prefix"])
def test_names_may_lack_the_prefix_of_the_wrapper(tmp_path, wrapped):
    source, target = (models.create("resnet20", IMAGE, seed=seed) for seed in (0, 1))
    state = source.state_dict() if wrapped else source.network.state_dict()
    torch.save(state, tmp_path / "weights.pt")
    own.load_weights(target, tmp_path / "weights.pt")
    assert all(torch.equal(target.state_dict()[name], value) for name, value in source.state_dict().items())


STATE = {"1.weight": torch.zeros(4, 192), "1.bias": torch.zeros(4)}
MISFITS = {
    "missing": ({"1.weight": STATE["1.weight"]}, "it lacks 1.bias"),
    "extra": ({**STATE, "2.bias": torch.zeros(1)}, "it has the extra 2.bias"),
    "wrong shape": ({**STATE, "1.weight": torch.zeros(5, 192)}, "another shape for 1.weight"),
    "other names": ({"a": torch.zeros(1), "b": torch.zeros(1)}, "extra network.a and 1 more"),
    "nothing": ({}, "does not fit"),
    "NaN": ({**STATE, "1.bias": torch.tensor([0, 0, 0, torch.nan])}, "NaN or infinite"),
    "infinite": ({**STATE, "1.bias": torch.tensor([0, 0, 0, torch.inf])}, "NaN or infinite"),
}


@pytest.mark.parametrize(("state", "reason"), MISFITS.values(), ids=MISFITS)
@pytest.mark.parametrize("suffix", [".safetensors", ".pt"])
def test_weights_that_do_not_fit_are_refused_and_change_nothing(tmp_path, state, reason, suffix):
    model = network()
    before = model[1].weight.clone()
    path = tmp_path / f"weights{suffix}"
    (save_file if suffix == ".safetensors" else torch.save)(state, path)
    with pytest.raises(WeightsError, match=rf"weights\{suffix} .*{reason}"):
        own.load_weights(model, path)
    assert torch.equal(model[1].weight, before)


def test_a_pickled_model_is_refused(tmp_path):
    torch.save(network(), tmp_path / "model.pt")
    with pytest.raises(WeightsError, match=r"model\.pt is not a plain state dictionary"):
        own.load_weights(network(), tmp_path / "model.pt")


def save_as_pickle(value, path):
    path.write_bytes(pickle.dumps(value, protocol=2))


@pytest.mark.parametrize("save", [torch.save, save_as_pickle])
def test_a_hostile_pickle_is_refused_and_not_run(tmp_path, save):
    save({"1.weight": Hostile(tmp_path / "mark")}, tmp_path / "weights.pt")
    with pytest.raises(WeightsError, match=r"weights\.pt"):
        own.load_weights(network(), tmp_path / "weights.pt")
    assert not (tmp_path / "mark").exists()


def test_the_hostile_pickle_would_have_run(tmp_path):
    torch.save(Hostile(tmp_path / "mark"), tmp_path / "weights.pt")
    torch.load(tmp_path / "weights.pt", weights_only=False).close()
    assert (tmp_path / "mark").exists()


@pytest.mark.parametrize("suffix", [".safetensors", ".pt"])
@pytest.mark.parametrize("keep", [0, 1, 5, 100, -1])
def test_truncated_weights_are_refused_by_name(tmp_path, suffix, keep):
    path = tmp_path / f"weights{suffix}"
    (save_file if suffix == ".safetensors" else torch.save)(STATE, path)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(WeightsError, match=rf"weights\{suffix}"):
        own.load_weights(network(), path)


def test_missing_weights_are_refused_by_name(tmp_path):
    with pytest.raises(WeightsError, match=r"no weights file .*nowhere\.pt"):
        own.load_weights(network(), tmp_path / "nowhere.pt")


class Strange(nn.Module):
    """A layer and a function of its output."""

    def __init__(self, change):
        super().__init__()
        self.layer = network()
        self.change = change

    def forward(self, images):
        return self.change(self.layer(images))


def raising(error):
    def fail(logits):
        raise error

    return Strange(fail)


def test_a_fitting_model_is_counted():
    assert own.inspect(network(outputs=7), IMAGE) == 7


REFUSED = {
    "wrong channels": (lambda: nn.Conv2d(1, 4, 8), "does not take images of 3x8x8"),
    "too few outputs": (lambda: network(outputs=3), "has 3 outputs, but the data has 4 classes"),
    "half precision": (lambda: network().half(), "torch.float16: call model.float"),
    "double precision": (lambda: network().double(), "torch.float64: call model.float"),
    "bfloat16": (lambda: network().bfloat16(), "torch.bfloat16"),
    "one output": (lambda: network(outputs=1), "one output"),
    "no parameters": (nn.Flatten, "no parameters"),
    "frozen": (lambda: network().requires_grad_(False), "no parameters"),
    "tuple": (lambda: Strange(lambda logits: (logits, logits)), "returns tuple, not a tensor"),
    "NaN": (lambda: Strange(lambda logits: logits * torch.nan), "NaN or infinite logits"),
    "image": (lambda: Strange(lambda logits: logits.view(2, 2, 2)), r"shape \(2, 2, 2\) for 2 images"),
    "one row": (lambda: Strange(lambda logits: logits[:1]), r"shape \(1, 4\) for 2 images"),
    "a number": (lambda: Strange(lambda logits: logits.sum()), r"shape \(\) for 2 images"),
    "error without text": (lambda: raising(ValueError()), "does not take images"),
    "failed assertion": (lambda: raising(AssertionError("wrong height")), "does not take images.*wrong height"),
}


@pytest.mark.parametrize(("make", "reason"), REFUSED.values(), ids=REFUSED)
def test_a_model_that_cannot_be_audited_is_refused(make, reason):
    with pytest.raises(ModelError, match=reason):
        own.inspect(make().eval(), IMAGE)


def test_train_mode_is_switched_off_with_a_warning(caplog):
    model = network().train()
    with caplog.at_level(logging.WARNING):
        own.inspect(model, IMAGE)
    assert not any(module.training for module in model.modules())
    assert "looked at in eval mode" in caplog.text


def test_a_layer_left_in_train_mode_is_switched_too():
    model = nn.Sequential(network(), nn.Dropout()).eval()
    model[1].train()
    own.inspect(model, IMAGE)
    assert not model[1].training


def test_eval_mode_gives_no_warning(caplog):
    own.inspect(network(), IMAGE)
    assert not caplog.records
