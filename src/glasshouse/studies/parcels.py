"""Files of a study on their way to a machine that cannot read this one's."""

from __future__ import annotations

import atexit
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import mkdtemp


def packed(directory: Path, files: Iterable[Path]) -> dict[str, bytes]:
    """The content of files by their names within a directory."""
    return {str(file.relative_to(directory)): file.read_bytes() for file in files}


def unpacked(files: Mapping[str, bytes]) -> Path:
    """A directory with these files, which goes when this process ends."""
    directory = Path(mkdtemp(prefix="glasshouse-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    for name, content in files.items():
        (directory / name).parent.mkdir(exist_ok=True)
        (directory / name).write_bytes(content)
    return directory
