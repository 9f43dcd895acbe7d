"""Files of a study on their way to a machine that cannot read this one's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

#: Contents by name within a study's directory; arrays because Ray keeps arrays once on each machine, for all workers.
Files = Mapping[str, np.ndarray]


def packed(directory: Path, files: Iterable[Path]) -> Files:
    """The content of files by their names within a directory."""
    return {str(file.relative_to(directory)): np.frombuffer(file.read_bytes(), dtype=np.uint8) for file in files}


@contextmanager
def opened(directory: Path, files: Files | None, name: str) -> Iterator[Path]:
    """A file of a study; one that travelled lies on disk only while it is read, for nobody else."""
    if files is None:
        yield directory / name
        return
    with TemporaryDirectory(prefix="glasshouse-") as folder:
        file = Path(folder) / Path(name).name
        file.write_bytes(files[name].tobytes())
        yield file
