"""Images to protect, one after another: a folder of files or the arrays of an NPZ file, never all in memory."""

from __future__ import annotations

import itertools
import os
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Container, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from glasshouse.data.images import SUFFIXES, read_image
from glasshouse.errors import DataError

Array = np.ndarray[Any, np.dtype[Any]]
BROKEN = (OSError, ValueError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error)


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """One image (H, W, C) under its identity: the relative path without suffix, or ``x_train/000123``."""

    identity: str
    pixels: Array


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A file that could not be read, and why."""

    name: str
    reason: str


class Source(ABC):
    """Images in an order that is always the same, so that work can go on at a place in it."""

    @abstractmethod
    def pictures(self, skip: int = 0) -> Iterator[Picture | Unreadable]:
        """Read the images one after another, from a place in their order."""

    @abstractmethod
    def some(self, identities: Container[str]) -> Iterator[Picture | Unreadable]:
        """Read those images only that are asked for, in the same order."""

    @abstractmethod
    def names(self) -> Iterator[str]:
        """The identities in the same order, without reading any image."""

    @abstractmethod
    def extras(self) -> dict[str, Array]:
        """What comes with the images and is no image: labels and class names."""


@dataclass(frozen=True, slots=True)
class Folder(Source):
    """Image files below a folder, in sorted order."""

    path: Path

    def pictures(self, skip: int = 0) -> Iterator[Picture | Unreadable]:
        """Read the files one after another; of two that differ in suffix only, the second is refused."""
        return (self._read(*named) for named in itertools.islice(self._named(), skip, None))

    def some(self, identities: Container[str]) -> Iterator[Picture | Unreadable]:
        """Read the files of some identities."""
        return (self._read(*named) for named in self._named() if named[0] in identities)

    def names(self) -> Iterator[str]:
        """Relative paths without suffix."""
        return (identity for identity, _, _ in self._named())

    def extras(self) -> dict[str, Array]:
        """A folder's classes are its sub-folders, which stay."""
        return {}

    def _named(self) -> Iterator[tuple[str, Path, bool]]:
        """Every file with its identity, and whether the file before it has the same."""
        last = None
        for file in self._files():
            identity = file.relative_to(self.path).with_suffix("").as_posix()
            yield identity, file, identity == last
            last = identity

    def _read(self, identity: str, file: Path, again: bool) -> Picture | Unreadable:
        name = file.relative_to(self.path).as_posix()
        if again:
            return Unreadable(name, "another file has this name but for its suffix: rename one")
        try:
            return Picture(identity, read_image(file))
        except DataError as error:
            return Unreadable(name, str(error))

    def _files(self) -> Iterator[Path]:
        for folder, children, names in os.walk(self.path, onerror=_refuse_folder):
            children.sort()
            for name in sorted(names, key=lambda one: (Path(one).stem, one)):
                if Path(name).suffix.lower() in SUFFIXES:
                    yield Path(folder) / name


@dataclass(frozen=True, slots=True)
class Archive(Source):
    """The image arrays of an NPZ file, decompressed row by row."""

    path: Path

    def pictures(self, skip: int = 0) -> Iterator[Picture | Unreadable]:
        """Read the rows of ``x_train`` and ``x_test`` one after another."""
        return itertools.islice(self._all(), skip, None)

    def some(self, identities: Container[str]) -> Iterator[Picture | Unreadable]:
        """Read all rows, since they are compressed as one, and return some."""
        return (picture for picture in self._all() if picture.identity in identities)

    def names(self) -> Iterator[str]:
        """``x_train/000000`` and so on, as many as the arrays have rows."""
        return (picture.identity for picture in self._all())

    def _all(self) -> Iterator[Picture]:
        try:
            with zipfile.ZipFile(self.path) as archive:
                for name in (one for one in ("x_train.npy", "x_test.npy") if one in archive.namelist()):
                    with archive.open(name) as stream:
                        yield from self._rows(stream, name.removesuffix(".npy"))
        except BROKEN as error:
            if isinstance(error, DataError):
                raise
            raise DataError(f"{self.path} cannot be read ({error}): copy it again.") from error

    def extras(self) -> dict[str, Array]:
        """The labels and class names."""
        try:
            with np.load(self.path, allow_pickle=False) as archive:
                return {name: archive[name] for name in ("y_train", "y_test", "class_names") if name in archive.files}
        except BROKEN as error:
            raise DataError(f"{self.path} cannot be read ({error}): copy it again.") from error

    def _rows(self, stream: IO[bytes], name: str) -> Iterator[Picture]:
        heads = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        version = np.lib.format.read_magic(stream)
        if version not in heads:
            raise DataError(f"{self.path}: {name} has array format {version}: save it with a current numpy.savez.")
        shape, fortran, dtype = heads[version](stream)
        if dtype != np.uint8 or fortran or len(shape) not in (3, 4) or (len(shape) == 4 and shape[3] not in (1, 3)):
            raise DataError(f"{self.path}: {name} has shape {shape} and dtype {dtype}: give 8-bit (N, H, W[, 1 or 3]).")
        if 0 in shape[1:]:
            raise DataError(f"{self.path}: {name} has shape {shape}, whose images are empty: give images with pixels.")
        size = int(np.prod(shape[1:]))
        for index in range(shape[0]):
            row = stream.read(size)
            if len(row) != size:
                raise DataError(f"{self.path}: {name} ends in the middle of image {index}: copy the file again.")
            yield Picture(f"{name}/{index:06d}", np.frombuffer(row, np.uint8).reshape(*shape[1:3], -1))


def _refuse_folder(error: OSError) -> None:
    """Stop at a folder that cannot be listed: its images would be missing without a word."""
    raise DataError(f"{error.filename} cannot be listed ({error.strerror}): make it readable, or move it away.")


def open_source(path: Path) -> Source:
    """The source behind a path."""
    if path.is_dir():
        return Folder(path)
    if path.suffix == ".npz" and path.is_file():
        return Archive(path)
    raise DataError(f"{path} is neither a directory nor an .npz file: give one of them.")
