"""Writing files so that a reader, or the next run after a kill, sees all of a file or none of it."""

from __future__ import annotations

import fcntl
import os
import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from glasshouse.errors import StudyError
from glasshouse.failpoints import failpoint

UNFINISHED = ".part"
LOCK = ".lock"


def write_atomic(path: Path, data: bytes) -> None:
    """Write a file under a temporary name, bring it to disk, then give it its own name."""
    _write(path, data, Path.replace)


def write_new(path: Path, data: bytes) -> None:
    """Write a file as ``write_atomic`` does, unless there is one of that name: of two who write at once, one does."""
    _write(path, data, _take_name)


def _take_name(part: Path, path: Path) -> None:
    """Give a finished file its name, unless that is taken."""
    try:
        path.hardlink_to(part)
    except FileExistsError:
        part.unlink()
    except OSError:  # a file system without links: only a look before tells whether the name is free
        part.unlink() if path.exists() else part.replace(path)
    else:
        part.unlink()


def _write(path: Path, data: bytes, finish: Callable[[Path, Path], object]) -> None:
    part = path.parent / f".{secrets.token_hex(8)}{UNFINISHED}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with part.open("xb") as file:
            file.write(data)
            file.flush()
            failpoint("file.before_fsync")
            os.fsync(file.fileno())
        failpoint("file.before_rename")
        finish(part, path)
        failpoint("file.after_rename")
        _sync_folder(path.parent)
    except OSError as error:
        with suppress(OSError):
            part.unlink()
        raise StudyError(f"Cannot write {path} ({error.strerror}): choose another place or make room.") from error


def write_once(path: Path, data: bytes) -> None:
    """Write a file whose content never changes, unless it is there and whole."""
    try:
        whole = path.is_file() and path.read_bytes() == data
    except OSError:  # a place that cannot be read: writing over it says why, or mends it
        whole = False
    if not whole:
        write_atomic(path, data)


def is_unfinished(path: Path) -> bool:
    """Whether a file is one that ``write_atomic`` was killed over."""
    return re.fullmatch(rf"\.[0-9a-f]{{16}}{re.escape(UNFINISHED)}", path.name) is not None


def is_unused(folder: Path) -> bool:
    """Whether a folder holds nothing but locks, of itself or of files, and what ``write_atomic`` was killed over."""
    return all(_is_lock(path) or is_unfinished(path) for path in folder.iterdir())


def _is_lock(path: Path) -> bool:
    return path.name.startswith(".") and path.name.endswith(LOCK)


def sweep(*folders: Path) -> None:
    """Remove what a killed run left half-written in some folders of its own; only their sole owner may."""
    for folder in folders:
        for path in folder.iterdir() if folder.is_dir() else ():
            if is_unfinished(path):
                path.unlink()


def _sync_folder(folder: Path) -> None:
    """Bring the folder's own entry to disk, so that a renamed file is found after a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sole_owner(folder: Path, option: str = "--out") -> AbstractContextManager[None]:
    """Hold a folder for this process alone; a second run on it is refused, and told what to choose otherwise."""
    return _held(folder, folder / LOCK, option)


def sole_user(file: Path, option: str = "--store") -> AbstractContextManager[None]:
    """Hold a file for this process alone, whatever folder it lies in; a second run on it is refused."""
    return _held(file, file.with_name(f".{file.name}{LOCK}"), option)


@contextmanager
def _held(what: Path, lock: Path, option: str) -> Iterator[None]:
    """Hold a lock file; it goes with its holder, and so do folders that were made for it and are still empty."""
    made = [folder for folder in (lock.parent, *lock.parent.parents) if not folder.exists()]
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        handle = _locked(lock)
    except BlockingIOError:
        raise StudyError(f"Another run is working on {what}: wait for it, or choose another {option}.") from None
    except OSError as error:
        raise StudyError(f"Cannot write to {lock.parent} ({error.strerror}): choose another {option}.") from error
    try:
        yield
    finally:
        with suppress(OSError):  # a folder that is not empty is kept, and so are those around it
            if os.path.samestat(lock.stat(), os.fstat(handle)):  # not that of who came after the folder was replaced
                lock.unlink()
            for folder in made:
                folder.rmdir()
        os.close(handle)


def _locked(lock: Path) -> int:
    """A handle on a lock file that no other process holds."""
    while True:
        handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            raise
        if os.fstat(handle).st_nlink:
            return handle
        os.close(handle)  # its last holder took it away after we opened it: by now there may be another
