"""Pictures that come from others or are made here, kept in a study's directory under names that say nothing."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path

import numpy as np
from PIL import Image

from glasshouse.files import write_atomic


def keep(study: Path, pixels: np.ndarray) -> str:
    """Write 8-bit (H, W, 1 or 3) pixels losslessly, the same picture once; the file, relative to the study."""
    buffer = io.BytesIO()
    Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels).save(buffer, "PNG")
    file = f"images/{hashlib.sha256(buffer.getvalue()).hexdigest()[:24]}.png"
    if not (study / file).is_file():
        write_atomic(study / file, buffer.getvalue())
    return file


def take_over(folder: Path, name: str | None, study: Path) -> str | None:
    """Copy a picture that a file of others names, if it lies in the folder of that file; no name leads out of it."""
    from glasshouse.data.images import read_image  # brings torch, which votes without pictures do not need

    if not name:
        return None
    path = (folder / name).resolve()
    if not path.is_relative_to(folder.resolve()) or not path.is_file():
        return None
    return keep(study, read_image(path))
