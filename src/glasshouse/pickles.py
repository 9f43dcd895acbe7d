"""Pickles of other people, read without running what is inside: dictionaries, lists and numpy arrays only."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
from numpy._core.multiarray import _reconstruct

from glasshouse.errors import DataError

ARRAY_PARTS = {
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
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
    except (
        pickle.UnpicklingError,
        EOFError,
        AttributeError,
        IndexError,
        KeyError,
        TypeError,
        ValueError,
    ) as error:
        raise DataError(f"{path.name} is not a readable pickle of arrays ({error}): copy it again.") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}): copy it again.") from error
