"""Readers that turn a published file into plain named tensors without running anything inside it."""

from __future__ import annotations

import pickle
import re
import struct
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch import Tensor

from glasshouse.errors import WeightsError
from glasshouse.pickles import read_arrays

#: What torch.load raises on files that are damaged or are something else.
UNREADABLE = (
    pickle.UnpicklingError,
    RuntimeError,
    EOFError,
    ValueError,
    OSError,
    LookupError,
    TypeError,
    AttributeError,
    AssertionError,
    OverflowError,
    MemoryError,
    struct.error,
)


def flax_trunk(network: str, layers: tuple[int, ...]) -> Callable[[Path], Mapping[str, Tensor]]:
    """A reader of a Flax trunk's convolutions into torchvision's ``features.N`` names."""

    def read(path: Path) -> Mapping[str, Tensor]:
        trunk = read_arrays(path)[network]
        tensors: dict[str, Tensor] = {}
        for number, layer in enumerate(layers):
            convolution = trunk[f"Conv_{number}"]
            kernel = torch.from_numpy(convolution["kernel"].copy())
            tensors[f"features.{layer}.weight"] = kernel.permute(3, 2, 0, 1).contiguous()
            tensors[f"features.{layer}.bias"] = torch.from_numpy(convolution["bias"].copy())
        return tensors

    return read


def torch_state(path: Path) -> Mapping[str, Tensor]:
    """Read a state dictionary of tensors; anything else in the file is refused."""
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except UNREADABLE as error:
        # torch's own text is left out, for it advises to open the file all the same
        raise WeightsError(
            f"{path.name} is not a plain state dictionary. A pickle of a whole model can run anything, so it "
            f"is not opened. Where the model was trained, run: from safetensors.torch import save_file; "
            f"save_file(model.state_dict(), '{_converted(path)}')"
        ) from error
    if isinstance(state, Mapping) and isinstance(state.get("state_dict"), Mapping):
        state = state["state_dict"]  # as training frameworks wrap it
    if not isinstance(state, Mapping) or not all(isinstance(value, Tensor) for value in state.values()):
        raise WeightsError(
            f"{path.name} does not hold a state dictionary but {_content(state)}. To take the weights out, run: "
            f"import torch; from safetensors.torch import save_file; save_file(torch.load({str(path)!r}, "
            f"weights_only=True){_place(state)}, '{_converted(path)}')"
        )
    return {str(name): value.contiguous() for name, value in state.items()}


def _content(state: object) -> str:
    """What a file holds instead of a state dictionary, in words."""
    if not isinstance(state, Mapping):
        return f"a {type(state).__name__}"
    return f"the entries {', '.join(map(repr, state))}" if state else "nothing"


def _place(state: object) -> str:
    """How to reach the tensors inside what a file holds: the entry that is a state dictionary, where there is one."""
    entries = state.items() if isinstance(state, Mapping) else ()
    names = [name for name, one in entries if isinstance(one, Mapping) and _only_tensors(one)]
    return f"[{names[0] if names else 'the entry with the weights'!r}]"


def _only_tensors(state: Mapping[object, object]) -> bool:
    return bool(state) and all(isinstance(value, Tensor) for value in state.values())


def _converted(path: Path) -> str:
    return path.with_suffix(".safetensors").name


def torch_convolutions(path: Path) -> Mapping[str, Tensor]:
    """Read the convolutions of a torchvision AlexNet or VGG and leave its classifier out."""
    return {name: value for name, value in torch_state(path).items() if name.startswith("features.")}


def scripted_inception(path: Path) -> Mapping[str, Tensor]:
    """Read the tensors of the TorchScript Inception, in order, under the names ``000.weight`` and so on."""
    script = torch.jit.load(str(path), map_location="cpu")
    tensors: dict[str, Tensor] = {}
    for name, value in script.state_dict().items():
        match = re.fullmatch(r"(.*)\.(weight|beta|mean|var)", name)
        if match is None:
            raise WeightsError(f"{path.name} holds an unexpected tensor '{name}': fetch the pinned version again.")
        tensors[f"{len(tensors) // 4:03d}.{match[2]}"] = value.contiguous()
    return tensors
