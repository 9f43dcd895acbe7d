"""Small pictures and old pickles for the fake official layouts."""

from __future__ import annotations

import io
import pickle
import struct
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image


class Python2Pickler(pickle._Pickler):
    """Writes texts and bytes as the 8-bit strings of Python 2, which is how the CIFAR files were made."""

    dispatch = pickle._Pickler.dispatch.copy()

    def save_string(self, value: bytes | str) -> None:
        raw = value.encode("latin1") if isinstance(value, str) else value
        self.write(b"U" + bytes([len(raw)]) if len(raw) < 256 else b"T" + struct.pack("<i", len(raw)))
        self.write(raw)
        self.memoize(value)

    dispatch[bytes] = save_string
    dispatch[str] = save_string


@pytest.fixture
def python2_pickle() -> Callable[[object], bytes]:
    """A function that pickles as Python 2 with an old numpy did."""

    def dump(value: object) -> bytes:
        stream = io.BytesIO()
        Python2Pickler(stream, protocol=2).dump(value)
        return stream.getvalue().replace(b"numpy._core.multiarray", b"numpy.core.multiarray")

    return dump


@pytest.fixture
def draw() -> Callable[..., Path]:
    """A function that writes a picture of one colour (or grey value) and returns its path."""

    def write(path: Path, value: int | Sequence[int] = 128, *, size: tuple[int, int] = (8, 8)) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        mode = "L" if isinstance(value, int) else "RGB"
        Image.new(mode, size, value if isinstance(value, int) else tuple(value)).save(path)
        return path

    return write


@pytest.fixture
def save_npz() -> Callable[..., Path]:
    """A function that writes an NPZ file with two splits of noise; keywords replace or remove (None) arrays."""

    def write(path: Path, *, shape: tuple[int, ...] = (8, 8, 3), **changes: object) -> Path:
        rng = np.random.default_rng(0)
        arrays: dict[str, object] = {
            "x_train": rng.integers(0, 256, (6, *shape), dtype=np.uint8),
            "y_train": np.arange(6) % 3,
            "x_test": rng.integers(0, 256, (4, *shape), dtype=np.uint8),
            "y_test": np.array([2, 1, 0, 1]),
            "class_names": np.array(["ant", "bee", "cat"]),
            **changes,
        }
        np.savez(path, **{key: value for key, value in arrays.items() if value is not None})
        return path

    return write
