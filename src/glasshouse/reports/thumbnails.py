"""Pictures within a page: small enough that a thousand of them can be sent by mail, the whole ones lie beside it."""

from __future__ import annotations

import base64
import io
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from glasshouse.data.images import decode_image
from glasshouse.errors import StudyError
from glasshouse.store import Album
from glasshouse.studies.pictures import to_png

PICTURE = r"images/[0-9a-f]{24}\.png"
COMPRESSED = 4  # times that pictures worth looking at become smaller as PNG, at most
QUALITY = 75  # of a picture that does not fit as it is


@dataclass(frozen=True, slots=True)
class Room:
    """What a picture may take of a page: as it is where that is few enough bytes, else smaller, with some loss."""

    most_bytes: int
    edge: int  # pixels of the longer side, at most


#: Pictures that a reader looks at one by one; colour images of 64 pixels fit as they are.
LARGE = Room(most_bytes=13_000, edge=128)
#: Pictures of which there may be two thousand; colour images of 32 pixels fit as they are.
SMALL = Room(most_bytes=3_200, edge=48)


def pixels_of(album: Album, file: str) -> np.ndarray:
    """A study's picture as 8-bit pixels (H, W, C).

    The name comes from a file that others may have written, so only a study's own pictures are taken, and only
    what decodes as one.
    """
    if not re.fullmatch(PICTURE, file):
        raise StudyError(f"The results name '{file}', which is no picture of a study: they may be hostile.")
    return decode_image(album.read(file), file)


def beside(directory: Path, album: Album, file: str) -> str:
    """Where the whole picture lies, seen from ``report/index.html``; empty where the study keeps pictures elsewhere."""
    return f"../{file}" if album == Album.of(directory) and re.fullmatch(PICTURE, file) else ""


def inline(album: Album, file: str, room: Room | None = None) -> str:
    """A study's picture as a data address, so that the page stands alone; whole where no room is named."""
    return data_address(pixels_of(album, file), room)


def data_address(pixels: np.ndarray, room: Room | None = None) -> str:
    """8-bit pixels (H, W, C) as a data address of a PNG picture, or of a JPEG one where that takes too much room."""
    if room is None or pixels.nbytes <= COMPRESSED * room.most_bytes:  # what is far larger need not be tried
        content = to_png(pixels)
        if room is None or len(content) <= room.most_bytes:
            return png_address(content)
    image = Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)
    image.thumbnail((room.edge, room.edge))
    buffer = io.BytesIO()
    image.save(buffer, format="JPEG", quality=QUALITY)
    return f"data:image/jpeg;base64,{base64.b64encode(buffer.getvalue()).decode()}"


def png_address(content: bytes) -> str:
    """A PNG picture as a data address."""
    return f"data:image/png;base64,{base64.b64encode(content).decode()}"
