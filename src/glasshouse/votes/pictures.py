"""Pictures that come from others or are made here, kept in a study's directory under names that say nothing."""

from __future__ import annotations

import hashlib
import io
import warnings
from pathlib import Path

import numpy as np
from PIL import Image

from glasshouse.errors import StudyError
from glasshouse.files import write_atomic

MOST_PIXELS = 64_000_000
FORMATS = ("PNG",)  # all that studies and importers write
GREY = ("1", "L", "I", "I;16", "F")


def bare_png(study: Path, file: str) -> bytes:
    """A picture of a study as PNG, pixels only: no name, no comment. Whatever else a database names is refused."""
    try:
        path = (study / file).resolve()
        if not path.is_relative_to(study.resolve()):
            raise StudyError(f"{file} leads out of {study}: this database was not made by Glasshouse.")
        if not path.is_file():
            raise StudyError(f"{study / file} is missing: run the study again, or import its votes again.")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(path, formats=FORMATS) as picture:
                if picture.width * picture.height > MOST_PIXELS:
                    raise StudyError(f"{study / file} has more than {MOST_PIXELS:,} pixels: make it smaller first.")
                plain = picture.convert("L" if picture.mode in GREY else "RGB")
    except (OSError, SyntaxError, ValueError, EOFError, Image.DecompressionBombError) as error:
        raise StudyError(f"{study / file} is no whole PNG picture ({error}): run the study again.") from error
    bare = Image.frombytes(plain.mode, plain.size, plain.tobytes())  # a copy would bring the comments along
    written = io.BytesIO()
    bare.save(written, "PNG", compress_level=1)
    return written.getvalue()


def keep(study: Path, pixels: np.ndarray) -> str:
    """Write 8-bit (H, W, 1 or 3) pixels losslessly, the same picture once; the file, relative to the study."""
    buffer = io.BytesIO()
    Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels).save(buffer, "PNG")
    file = opaque_file(buffer.getvalue())
    if not (study / file).is_file():
        write_atomic(study / file, buffer.getvalue())
    return file


def opaque_file(png: bytes) -> str:
    """Where a picture lies, under a name that its pixels alone decide."""
    return f"images/{hashlib.sha256(png).hexdigest()[:24]}.png"


def take_over(folder: Path, name: str | None, study: Path) -> str | None:
    """Copy a picture that a file of others names, if it lies in the folder of that file; no name leads out of it."""
    from glasshouse.data.images import read_image  # brings torch, which votes without pictures do not need

    if not name:
        return None
    path = (folder / name).resolve()
    if not path.is_relative_to(folder.resolve()) or not path.is_file():
        return None
    return keep(study, read_image(path))
