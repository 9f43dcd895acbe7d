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
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise WeightsError(
            f"{path.name} is not a plain state dictionary ({first}): save tensors only, best as safetensors."
        ) from error
    if isinstance(state, Mapping) and isinstance(state.get("state_dict"), Mapping):
        state = state["state_dict"]  # as training frameworks wrap it
    if not isinstance(state, Mapping) or not all(isinstance(value, Tensor) for value in state.values()):
        raise WeightsError(f"{path.name} does not hold a state dictionary: save model.state_dict(), not the model.")
    return {str(name): value.contiguous() for name, value in state.items()}


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
