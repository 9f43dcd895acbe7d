"""Pictures that come from others or are made here, kept in a study under names that say nothing."""

from __future__ import annotations

import hashlib
import io
import warnings
from pathlib import Path

import numpy as np
from PIL import Image

from glasshouse.errors import StudyError
from glasshouse.store import FOLDER, Album, Location

MOST_PIXELS = 64_000_000
FORMATS = ("PNG",)  # all that studies and importers write
GREY = ("1", "L", "I", "I;16", "F")


def bare_png(study: Path, file: str) -> bytes:
    """A picture of a study as PNG, pixels only: no name, no comment. Whatever else a database names is refused."""
    content = Location.of(study).album.read(file)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(io.BytesIO(content), formats=FORMATS) as picture:
                if picture.width * picture.height > MOST_PIXELS:
                    raise StudyError(f"{file} has more than {MOST_PIXELS:,} pixels: make it smaller first.")
                plain = picture.convert("L" if picture.mode in GREY else "RGB")
    except (OSError, SyntaxError, ValueError, EOFError, Image.DecompressionBombError) as error:
        raise StudyError(f"{file} is no whole PNG picture ({error}): run the study again.") from error
    bare = Image.frombytes(plain.mode, plain.size, plain.tobytes())  # a copy would bring the comments along
    written = io.BytesIO()
    bare.save(written, "PNG", compress_level=1)
    return written.getvalue()


def keep(album: Album, pixels: np.ndarray) -> str:
    """Write 8-bit (H, W, 1 or 3) pixels losslessly, the same picture once; what it is called in the study."""
    buffer = io.BytesIO()
    Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels).save(buffer, "PNG")
    file = opaque_file(buffer.getvalue())
    if not album.has(file):
        album.write(file, buffer.getvalue())
    return file


def opaque_file(png: bytes) -> str:
    """Where a picture lies, under a name that its pixels alone decide."""
    return f"{FOLDER}/{hashlib.sha256(png).hexdigest()[:24]}.png"


def take_over(folder: Path, name: str | None, study: Path) -> str | None:
    """Copy a picture that a file of others names, if it lies in the folder of that file; no name leads out of it."""
    from glasshouse.data.images import read_image  # brings torch, which votes without pictures do not need

    if not name:
        return None
    path = (folder / name).resolve()
    if not path.is_relative_to(folder.resolve()) or not path.is_file():
        return None
    return keep(Location.of(study).album, read_image(path))
