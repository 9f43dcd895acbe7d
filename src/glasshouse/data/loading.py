"""One door for all data: a SPEC, a FILE.npz or a DIRECTORY."""

from __future__ import annotations

from pathlib import Path

from glasshouse import checks
from glasshouse.data.base import ImageSet, Split, datasets
from glasshouse.data.folder import open_folder
from glasshouse.data.npz import open_npz
from glasshouse.errors import DataError, SettingError, UnknownNameError


def load(
    source: str,
    *,
    root: Path | None = None,
    size: int | None = None,
    split: Split = "test",
    download: bool = False,
) -> ImageSet:
    """Open a data set by SPEC, an NPZ file, or a folder of images, resized if ``size`` is given."""
    path = Path(source)
    if size is not None:
        checks.between("size", size, 1, 4096)
    name = source.partition(":")[0]
    if name in datasets.names():
        settings: dict[str, object] = {} if size is None else {"size": size}
        if split != "test":
            settings["split"] = split
        return datasets.create(source, **settings).load(root, download=download)
    if not name:
        raise SettingError(f"Cannot read data set '{source}': write a name, an .npz file or a directory.")
    if path.is_dir():
        return open_folder(path, size=size)
    if source.endswith(".npz"):
        if not path.is_file():
            raise DataError(f"There is no file {source}: check the path.")
        return open_npz(path, split).fitted(size, None)
    if "/" in source or path.is_file():
        raise DataError(f"{source} is neither a directory nor an .npz file: give one of them, or a data set's name.")
    raise UnknownNameError("dataset", name, datasets.names())
