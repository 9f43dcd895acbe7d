"""Images that an attacker may know, kept once in a study under the hash of their content."""

from __future__ import annotations

import hashlib
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from glasshouse.errors import StudyError
from glasshouse.files import write_once

KEY = "images"


def save_public(directory: Path, images: Tensor) -> str:
    """Keep images (M, C, H, W) in [0, 1] as 8-bit values; return the hash that names them."""
    content = save({KEY: (images * 255).round().to(torch.uint8).contiguous()})
    name = _name(content)
    write_once(directory / public_file(name), content)
    return name


def load_public(file: Path, name: str) -> Tensor:
    """Read public images back as (M, C, H, W) in [0, 1]; refuse those that changed since they were written."""
    try:
        content = file.read_bytes()
        images = load(content)[KEY]
    except (OSError, SafetensorError, KeyError) as error:
        raise StudyError(f"{file} cannot be read ({error}): run the same command again.") from error
    if _name(content) != name:
        raise StudyError(f"{file} was changed since it was written: delete it and run again.")
    return images.float() / 255


def public_file(name: str) -> str:
    """Where public images of that name lie in a study's directory."""
    return f"public/{name}.safetensors"


def _name(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:24]
