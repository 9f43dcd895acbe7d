"""The manifest of a protected data set: one JSON line per fact, appended as work is finished, never a key.

The first line says how the set was made. Then, for each finished step of the work, come the files it wrote
and a line that closes it. What follows the last closed step was cut short and is done again.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from glasshouse.defenses.csvar import FORMAT, Array
from glasshouse.errors import DataError
from glasshouse.failpoints import failpoint
from glasshouse.types import JSON

NAME = "manifest.jsonl"
SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Header:
    """How a protected set was made; ``key_check`` tells a wrong key from the right one and nothing else."""

    files: str
    epochs: int
    block_size: int | None
    channel_wise: bool
    source: str
    key_check: str
    format: str = FORMAT.decode()
    schema: int = SCHEMA


@dataclass(frozen=True, slots=True)
class Version:
    """One version of one image: the file that holds it, a hash of its pixels, and a keyed hash of the original's."""

    identity: str
    epoch: int
    file: str
    sha256: str
    original: str


def key_check(key: bytes) -> str:
    """A keyed hash of nothing: the same key gives the same, and it says nothing about the key."""
    return hashlib.blake2b(b"", key=key, digest_size=16, person=b"csvar-check").hexdigest()


def original_check(key: bytes, identity: str, pixels: Array) -> str:
    """A keyed hash of an original, so that its restoring can be proved by the key's holder only.

    The identity is part of it, else equal images would be seen to be equal.
    """
    head = f"{identity}\0{pixels.shape}\0".encode("utf-8", "surrogateescape")
    return hashlib.blake2b(head + pixels.tobytes(), key=key, digest_size=16, person=b"csvar-original").hexdigest()


class Manifest:
    """The manifest of one directory."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / NAME

    def begin(self, header: Header) -> tuple[int, int]:
        """Start, or continue after a kill; return how many steps and source images are finished."""
        if not self._begun():
            self.path.unlink(missing_ok=True)
            self._append([dataclasses.asdict(header)])
            return 0, 0
        if self.header() != header:
            raise DataError(
                f"{self.path.parent} was protected with other settings or another key: choose another directory."
            )
        steps = images = end = 0
        with self.path.open("rb") as file:
            for line in file:
                fact = _parse(line)
                if fact is None:
                    break
                if "step" in fact:
                    steps, images, end = fact["step"], fact["images"], file.tell()
                elif "schema" in fact or "finished" in fact:
                    end = file.tell()
        os.truncate(self.path, end)
        return steps, images

    def _begun(self) -> bool:
        """Whether the first line is there in full; a kill may have left less."""
        if not self.path.exists():
            return False
        with self.path.open("rb") as file:
            return file.readline().endswith(b"\n")

    def close_step(self, facts: Iterable[JSON], step: int, images: int) -> None:
        """Write down what a step wrote, all at once."""
        self._append([*facts, {"step": step, "images": images}])

    def finish(self) -> None:
        """Write down that every image of the source is there."""
        if not any("finished" in fact for fact in self.facts()):
            self._append([{"finished": True}])

    def check_finished(self) -> None:
        """Refuse a set of which a part is missing."""
        if not any("finished" in fact for fact in self.facts()):
            raise DataError(f"{self.path.parent} is not finished: run the same 'glasshouse protect' again first.")

    def header(self) -> Header:
        """How the set was made."""
        first = next(self.facts(), None)
        try:
            header = Header(**(first or {}))
            if header.schema != SCHEMA or not _fits(header):
                raise TypeError
            return header
        except TypeError:
            raise DataError(f"{self.path} is not the manifest of a protected data set.") from None

    def versions(self) -> Iterator[Version]:
        """Every version of every image, in the order of the work."""
        for fact in self.facts():
            if "identity" in fact:
                try:
                    version = Version(**fact)
                except TypeError:
                    raise DataError(f"{self.path} is not the manifest of a protected data set.") from None
                texts = (version.identity, version.file, version.sha256, version.original)
                if not all(isinstance(text, str) for text in texts) or type(version.epoch) is not int:
                    raise DataError(f"{self.path} is not the manifest of a protected data set.")
                yield version

    def facts(self) -> Iterator[JSON]:
        """Every line of the manifest."""
        try:
            with self.path.open("rb") as file:
                for number, line in enumerate(file, start=1):
                    fact = _parse(line)
                    if fact is None:
                        raise DataError(f"{self.path}, line {number} is damaged: protect the data set again.")
                    yield fact
        except OSError as error:
            raise DataError(f"{self.path} cannot be read ({error.strerror}): is this a protected data set?") from error

    def _append(self, facts: list[JSON]) -> None:
        try:
            with self.path.open("ab") as file:
                file.write("".join(json.dumps(fact, sort_keys=True) + "\n" for fact in facts).encode())
                file.flush()
                failpoint("manifest.before_fsync")
                os.fsync(file.fileno())
        except OSError as error:
            raise DataError(
                f"Cannot write {self.path} ({error.strerror}): free some space, then run the same command again."
            ) from error
        failpoint("manifest.after_fsync")


def _fits(header: Header) -> bool:
    """Whether every field has its type: others may have written the file."""
    texts = (header.files, header.source, header.key_check, header.format)
    return (
        all(isinstance(text, str) for text in texts)
        and type(header.epochs) is int
        and header.epochs > 0
        and (header.block_size is None or type(header.block_size) is int)
        and type(header.channel_wise) is bool
    )


def _parse(line: bytes) -> JSON | None:
    """A line of the manifest; nothing if it was cut short."""
    try:
        fact = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return fact if isinstance(fact, dict) and line.endswith(b"\n") else None
