"""SemSim networks as files: safetensors with what is needed to build the network again beside the weights."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_safetensors

from glasshouse import checks
from glasshouse.errors import GlasshouseError, WeightsError
from glasshouse.files import write_atomic
from glasshouse.semsim.backbones import FRESH
from glasshouse.semsim.network import Embedding, Network, Perceptual

SCHEMA = 1
HALF = torch.float16
SHIPPED = Path(__file__).with_name("semsim.safetensors")


def save(network: Network, file: Path, **about: str) -> None:
    """Write a network in half precision with notes about it; a file that is there is not overwritten."""
    refuse_taken(file)
    built = {"schema": SCHEMA, "kind": network.kind, "backbone": network.backbone, "size": network.size}
    tensors = {name: _packed(name, value) for name, value in network.state_dict().items()}
    if not _finite(tensors):
        raise WeightsError(f"{file} would hold NaN or values beyond half precision: train it with a smaller --lr.")
    notes = {"glasshouse": json.dumps(built), **about}
    write_atomic(file, to_safetensors(tensors, metadata=notes))


def refuse_taken(*files: Path) -> None:
    """Raise where one of some files that are to be written is there already."""
    for file in files:
        if file.exists():
            raise WeightsError(f"{file} is there already: choose another name or move it away.")


def load(file: Path) -> Network:
    """Read a network back, in eval mode; anything that is not one is refused."""
    with _opened(file) as opened:
        built = json.loads((opened.metadata() or {}).get("glasshouse", "null"))
        tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 - not a dictionary
    network = _built(file, built)
    if network.state_dict().keys() - tensors.keys() == {"haze"}:
        raise WeightsError(f"{file} was trained by an older version, which saw images without a haze: train it anew.")
    try:
        network.load_state_dict(tensors)
    except RuntimeError as error:
        raise WeightsError(f"{file} does not fit the network it names: train or install it again.") from error
    if not _finite(network.state_dict()):
        raise WeightsError(f"{file} holds NaN or infinite values: the training that made it diverged.")
    return network.requires_grad_(False).eval()


def notes(file: Path) -> dict[str, str]:
    """What a file says of itself beside its weights: whose judgements it learned from, and how."""
    with _opened(file) as opened:
        return {name: text for name, text in (opened.metadata() or {}).items() if name != "glasshouse"}


def digest(file: Path) -> str:
    """A hash of a file's content, which tells networks apart."""
    if not file.is_file():
        raise WeightsError(f"There is no SemSim file {file}: train one with 'glasshouse semsim train'.")
    state = file.stat()
    return _digest(file, state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=4)
def _digest(file: Path, changed: int, size: int) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()[:12]


@lru_cache(maxsize=1)
def shipped() -> Network:
    """The network that comes with this package."""
    return load(SHIPPED)


@contextmanager
def _opened(file: Path) -> Iterator[Any]:
    """An open file; whatever is wrong with it, or with what is read from it, is said in one line."""
    try:
        if not file.is_file():
            raise WeightsError(f"There is no SemSim file {file}: train one with 'glasshouse semsim train'.")
        with safe_open(file, framework="pt") as opened:
            yield opened
    except (SafetensorError, OSError, ValueError, RecursionError) as error:
        raise WeightsError(f"{file} is damaged or no SemSim network ({error}): train or install it again.") from error


def _finite(tensors: Mapping[str, torch.Tensor]) -> bool:
    return all(bool(value.isfinite().all()) for value in tensors.values())


def _packed(name: str, value: torch.Tensor) -> torch.Tensor:
    """Half precision where it costs nothing that anybody sees; the calibration is two numbers."""
    return value.contiguous().to(HALF) if value.is_floating_point() and name != "calibration" else value.contiguous()


def _built(file: Path, built: object) -> Network:
    """The network that a file describes, without its weights."""
    if not isinstance(built, dict) or built.get("schema") != SCHEMA:
        raise WeightsError(f"{file} does not say what network it holds: give a file that 'semsim train' wrote.")
    try:
        size = int(built["size"])
        if built["kind"] == Perceptual.kind:
            return Perceptual(size)
        # of others' files only known backbones are built: a SPEC could ask for any amount of memory
        checks.one_of("backbone", str(built["backbone"]), tuple(FRESH.values()))
        return Embedding(str(built["backbone"]), size)
    except (KeyError, TypeError, ValueError, OverflowError, GlasshouseError) as error:
        raise WeightsError(f"{file} describes a network that cannot be built ({error}): train it again.") from error
