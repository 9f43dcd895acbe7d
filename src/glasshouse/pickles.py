"""Pickles of other people, read without running what is inside: dictionaries, lists and numpy arrays only."""

from __future__ import annotations

import io
import math
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np

from glasshouse.errors import DataError


class PlainDtype:
    """Stands for numpy.dtype, whose own ``__setstate__`` believes any flags: numbers of a known size only."""

    def __init__(self, name: str | bytes, align: bool = False, copy: bool = True) -> None:
        text = name.decode("latin1") if isinstance(name, bytes) else name
        if not re.fullmatch(r"[biufc]\d{1,2}", text):
            raise DataError(f"holds an array of {text!r:.40}, which is more than numbers: it may be hostile, delete it")
        self.dtype = np.dtype(text)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        order = state[1].decode("latin1") if isinstance(state[1], bytes) else state[1]
        self.dtype = self.dtype.newbyteorder(order)  # type: ignore[arg-type]


class PlainArray(np.ndarray):
    """An array that checks its pickled state before numpy sees it."""

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, kind, fortran, raw = state
        sizes = tuple(int(size) for size in shape)
        if not isinstance(kind, PlainDtype) or not isinstance(raw, bytes) or min(sizes, default=0) < 0:
            raise ValueError("an array without plain content")
        if math.prod(sizes) * kind.dtype.itemsize != len(raw):
            raise ValueError("an array whose shape and content differ")
        super().__setstate__((1, sizes, kind.dtype, bool(fortran), raw))  # type: ignore[arg-type]


def _reconstruct(*_: object) -> PlainArray:
    return PlainArray((0,), np.int8)


ARRAY_PARTS: dict[tuple[str, str], object] = {
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy", "ndarray"): None,  # only ever an argument of _reconstruct
    ("numpy", "dtype"): PlainDtype,
    ("_codecs", "encode"): lambda text, encoding: text.encode("latin1"),  # how Python 2 bytes travel
}


class ArrayUnpickler(pickle.Unpickler):
    """Reads the parts that an array is made of and refuses everything else."""

    def find_class(self, module: str, name: str) -> Any:
        """Return one of the few known parts."""
        if (module, name) not in ARRAY_PARTS:
            raise DataError(f"asks for {module}.{name}, which is more than arrays: it may be hostile, delete it")
        return ARRAY_PARTS[module, name]


def read_arrays(path: Path) -> Any:
    """Read a pickle that holds nothing but numbers, texts, lists, dictionaries and numpy arrays."""
    try:
        return ArrayUnpickler(io.BytesIO(path.read_bytes()), encoding="bytes").load()
    except DataError as error:
        raise DataError(f"{path.name} {error}.") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}): copy it again.") from error
    except (
        pickle.UnpicklingError,
        EOFError,
        AttributeError,
        LookupError,
        TypeError,
        ValueError,
        OverflowError,
        MemoryError,
    ) as error:
        raise DataError(f"{path.name} is not a readable pickle of arrays ({error}): copy it again.") from error
