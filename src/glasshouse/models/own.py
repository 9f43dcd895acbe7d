"""A user's own model: from FILE.py:FACTORY, with weights from safetensors or a weights-only .pt file."""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import sys
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save
from torch import Tensor, nn

from glasshouse.errors import ModelError, WeightsError
from glasshouse.models.base import create
from glasshouse.torchvision_cpu import allow_cpu_torchvision
from glasshouse.types import ImageSpec
from glasshouse.weights import convert

log = logging.getLogger(__name__)

BEHIND = "trained behind"

#: What somebody's own file may raise when it is imported or called.
USER_ERRORS = (
    ImportError,
    SyntaxError,
    NameError,
    TypeError,
    ValueError,
    AttributeError,
    LookupError,
    RuntimeError,
    OSError,
)


def is_own(text: str) -> bool:
    """Whether a model is written as FILE.py:FACTORY."""
    return ".py:" in text or text.endswith(".py")


def source(text: str) -> bytes:
    """What the file of a model of one's own says, which decides results; nothing where there is none."""
    path = Path(text.rpartition(":")[0])
    return path.read_bytes() if is_own(text) and path.is_file() else b""


def build(text: str, image: ImageSpec, *, seed: int = 0) -> nn.Module:
    """Build a model from a SPEC or FILE.py:FACTORY, freshly initialised by the seed."""
    if not is_own(text):
        return create(text, image, seed=seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return _from_factory(text)


def _from_factory(text: str) -> nn.Module:
    file, _, factory = text.rpartition(":") if ".py:" in text else (text, "", "")
    path = Path(file)
    if not factory.isidentifier():
        raise ModelError(f"'{text}' names no factory: write FILE.py:FACTORY, for example net.py:make_model.")
    if not path.is_file():
        raise ModelError(f"There is no file {path}: give the path of the file that defines {factory}.")
    spec = importlib.util.spec_from_file_location(f"glasshouse_own_{_digest(path.resolve())}", path)
    if spec is None or spec.loader is None:
        raise ModelError(f"{path} cannot be imported: give a Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses and pickles look there
    allow_cpu_torchvision()  # which the file may import
    try:
        spec.loader.exec_module(module)
    except USER_ERRORS as error:
        raise ModelError(f"{path} cannot be imported ({type(error).__name__}: {error}): mend it first.") from error
    make = getattr(module, factory, None)
    if not callable(make):
        raise ModelError(f"{path} defines no function '{factory}': write FILE.py:FACTORY with one that it has.")
    try:
        model = make()
    except USER_ERRORS as error:
        raise ModelError(f"{text} failed ({type(error).__name__}: {error}): it is called without arguments.") from error
    if not isinstance(model, nn.Module):
        raise ModelError(f"{text} returned {type(model).__name__}: return a torch.nn.Module.")
    return model


def _digest(path: Path) -> str:
    return hashlib.sha256(str(path).encode()).hexdigest()[:16]


def read_weights(path: Path) -> Mapping[str, Tensor]:
    """Read named tensors from a safetensors or weights-only .pt/.pth file."""
    if not path.is_file():
        raise WeightsError(f"There is no weights file {path}: check the path.")
    if path.suffix != ".safetensors":
        return convert.torch_state(path)
    try:
        return load_file(path)
    except SafetensorError as error:
        raise WeightsError(f"{path} is not a readable safetensors file ({error}): save it again.") from error


def to_weights(model: nn.Module, *, behind: str | None = None) -> bytes:
    """A model's weights as a safetensors file, with the SPEC of a defense that changed the network, if one did."""
    tensors = {name: value.detach().clone().contiguous() for name, value in model.state_dict().items()}
    return save(tensors, None if behind is None else {BEHIND: behind})


def trained_behind(path: Path) -> str | None:
    """The SPEC of the defense that changed the network before these weights were trained, where the file says so."""
    if path.suffix != ".safetensors" or not path.is_file():
        return None
    try:
        with safe_open(path, "pt") as file:
            return (file.metadata() or {}).get(BEHIND)
    except SafetensorError as error:
        raise WeightsError(f"{path} is not a readable safetensors file ({error}): save it again.") from error


def load_weights(model: nn.Module, path: Path) -> None:
    """Load weights that fit a model exactly; names may lack the wrapper's ``network.`` prefix."""
    found = dict(read_weights(path))
    expected = model.state_dict()
    if not found:
        raise WeightsError(f"{path} does not fit the model: it holds nothing. Give the weights of this model.")
    if all(name.startswith("module.") for name in found):  # as DataParallel saves them
        found = {name.removeprefix("module."): value for name, value in found.items()}
    if not set(found) & set(expected):
        found = {f"network.{name}": value for name, value in found.items()}
        found |= {name: value for name, value in expected.items() if not name.startswith("network.")}
    missing, extra = sorted(set(expected) - set(found)), sorted(set(found) - set(expected))
    shapes = [name for name in expected if name in found and found[name].shape != expected[name].shape]
    problems = [
        f"{what} {names[0]}" + (f" and {len(names) - 1} more" if len(names) > 1 else "")
        for what, names in (("it lacks", missing), ("it has the extra", extra), ("another shape for", shapes))
        if names
    ]
    if problems:
        hint = (
            " It has no running statistics: was it trained with dp_sgd, which replaces batch norm? 'glasshouse train' "
            "now notes that in the file, so train it again."
            if missing and all("running_" in name or "num_batches" in name for name in missing)
            else ""
        )
        raise WeightsError(
            f"{path} does not fit the model: {'; '.join(problems)}. Give the weights of this model.{hint}"
        )
    if not all(bool(value.isfinite().all()) for value in found.values() if value.is_floating_point()):
        raise WeightsError(f"{path} holds NaN or infinite values: the training that made it diverged.")
    model.load_state_dict(found)


def inspect(model: nn.Module, image: ImageSpec) -> int:
    """Check that a model can be audited on such images, switch it to eval mode, and count its outputs."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not parameters:
        raise ModelError("The model has no parameters that require gradients, so it shares none: nothing to audit.")
    wrong = {parameter.dtype for parameter in parameters} - {torch.float32}
    if wrong:
        raise ModelError(f"The model is in {', '.join(map(str, wrong))}: call model.float() before the audit.")
    if any(module.training for module in model.modules()):
        log.warning("The model came in train mode and is looked at in eval mode; training switches back.")
        model.eval()
    images = torch.full((2, *image.shape), 0.5)
    try:
        with torch.no_grad():
            output = model(images)
    except (RuntimeError, ValueError, TypeError, LookupError, AssertionError, AttributeError) as error:
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ModelError(
            f"The model does not take images of {image.channels}x{image.height}x{image.width} ({first}): "
            "give images of the shape it was made for."
        ) from error
    if not isinstance(output, Tensor):
        raise ModelError(f"The model returns {type(output).__name__}, not a tensor of logits: return logits only.")
    if output.ndim != 2 or len(output) != 2:
        raise ModelError(f"The model returns shape {tuple(output.shape)} for 2 images: return logits (N, classes).")
    if output.shape[1] < 2:
        raise ModelError("The model has one output, so its cross-entropy gradient is always zero: give it two or more.")
    if output.shape[1] < image.classes:
        raise ModelError(
            f"The model has {output.shape[1]} outputs, but the data has {image.classes} classes: "
            f"give it {image.classes} outputs, or choose other data."
        )
    if not bool(output.isfinite().all()):
        raise ModelError("The model returns NaN or infinite logits: check its weights.")
    return int(output.shape[1])
