"""The pictures of a study: in a directory, or wherever fsspec reaches by a URL."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import fsspec
from fsspec.implementations.local import LocalFileSystem

from glasshouse.errors import PictureError, StudyError
from glasshouse.files import sweep, write_atomic, write_new

FOLDER = "images"  # what the names of pictures begin with, and where a study keeps them unless told otherwise

#: The file that says whose pictures a place holds: one that is not mounted holds none, and not this file either.
MARK = f"{FOLDER}/.glasshouse"

#: What file systems raise where they cannot do what is asked: each in its own way.
UNREACHABLE = (OSError, ValueError, NotImplementedError)


class Pictures(Protocol):
    """Pictures that can be read by name, and whether every process of this machine can read them so."""

    @property
    def near(self) -> bool:
        """Whether another process of this machine finds the same pictures."""

    def read(self, file: str) -> bytes:
        """The content of one picture."""


@dataclass(frozen=True, slots=True)
class Album:
    """Pictures named ``images/NAME``; ``where`` is the directory that holds them, or a URL that fsspec knows."""

    where: Path | str

    @classmethod
    def of(cls, directory: Path) -> Album:
        """The pictures that lie in a study's own directory."""
        return cls(directory / FOLDER)

    @property
    def near(self) -> bool:
        """Whether the pictures lie on a disk of this machine."""
        return isinstance(self._reached()[0], LocalFileSystem)

    def read(self, file: str) -> bytes:
        """The content of one picture; one that is not there is told from a place that cannot be reached."""
        files, path = self._path(file)
        try:
            content: bytes = files.cat_file(path)
        except FileNotFoundError:
            raise PictureError(f"{path} is missing: run the study again, or import its votes again.") from None
        except UNREACHABLE as error:
            raise StudyError(f"{path} cannot be read ({error}): see that {self.where} can be reached.") from error
        return content

    def has(self, file: str) -> bool:
        """Whether there is a picture of that name."""
        files, path = self._path(file)
        return bool(files.isfile(path))

    def write(self, file: str, content: bytes) -> None:
        """Write one picture: on a disk of this machine all or nothing, elsewhere as the place itself does it."""
        files, path = self._path(file)
        if isinstance(files, LocalFileSystem):
            write_atomic(Path(path), content)
            return
        try:
            files.pipe_file(path, content)
        except UNREACHABLE as error:
            raise StudyError(self._unwritable(error)) from error

    def owner(self) -> str | None:
        """The name of the study whose pictures these are; none where nobody has claimed the place."""
        try:
            return self.read(MARK).decode(errors="replace").strip()
        except PictureError:
            return None

    def claim(self, study: str) -> None:
        """Write down whose pictures these are, unless that is known; who claims them must look whose they are then.

        Of two who claim at once the first is known: on a disk always, elsewhere unless both look before either writes.
        """
        mark = f"{study}\n".encode()
        files, path = self._path(MARK)
        if isinstance(files, LocalFileSystem):
            write_new(Path(path), mark)
        elif self.owner() is None:
            self._make_folder()
            self.write(MARK, mark)

    def refuse(self) -> None:
        """Refuse a place that nobody knows how to reach, before anything is written."""
        self._reached()

    def prepare(self) -> None:
        """Make the folder, and remove what a killed run left half-written in it; only the study's sole owner may."""
        files, root = self._reached()
        if isinstance(files, LocalFileSystem):
            sweep(Path(root))
        else:
            self._make_folder()

    def _make_folder(self) -> None:
        files, root = self._reached()
        try:
            files.makedirs(root, exist_ok=True)
        except UNREACHABLE as error:
            raise StudyError(self._unwritable(error)) from error

    def _unwritable(self, error: Exception) -> str:
        reason = str(error) or "it can only be read"
        return f"Pictures cannot be written to {self.where} ({reason}): choose another place, or ask for the right."

    def _path(self, file: str) -> tuple[Any, str]:
        """The file system and path of a picture; no name that a database holds leads elsewhere."""
        folder, _, name = file.partition("/")
        if folder != FOLDER or not name or "/" in name or "\\" in name or name in (".", ".."):
            raise StudyError(f"{file} leads out of {self.where}: this database was not made by Glasshouse.")
        files, root = self._reached()
        return files, f"{root.rstrip('/')}/{name}"

    def _reached(self) -> tuple[Any, str]:
        if isinstance(self.where, Path):
            return LocalFileSystem(), str(self.where)
        try:
            files, root = fsspec.core.url_to_fs(self.where)
        except (ImportError, *UNREACHABLE) as error:
            raise StudyError(
                f"Pictures cannot be kept at '{self.where}' ({error}): give a directory, or a URL that fsspec knows, "
                "with the package installed that it needs (s3fs for s3://, gcsfs for gs://)."
            ) from error
        return files, root


@dataclass(frozen=True, slots=True, eq=False)
class Carried:
    """Pictures that travel to a process which cannot reach the place where they lie; they are never on its disk."""

    contents: Mapping[str, bytes]

    @classmethod
    def of(cls, pictures: Pictures, files: Iterable[str]) -> Carried:
        """Take some pictures along."""
        return cls({file: pictures.read(file) for file in files})

    @property
    def near(self) -> bool:
        """They are wherever they were carried to."""
        return True

    def read(self, file: str) -> bytes:
        """The content of one picture."""
        if file not in self.contents:
            raise PictureError(f"{file} was not sent along: run the same command again.")
        return self.contents[file]
