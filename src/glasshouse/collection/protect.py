"""Protect a data set: E shuffled versions of every image, written as the work goes on; and the way back."""

from __future__ import annotations

import hashlib
import io
import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from glasshouse import checks
from glasshouse.collection.formats import FORMATS, Format, encode, grouped
from glasshouse.collection.manifest import Header, Manifest, Version, key_check, original_check
from glasshouse.collection.sources import Folder, Picture, Source, Unreadable, open_source
from glasshouse.defenses import csvar
from glasshouse.errors import DataError, GlasshouseError
from glasshouse.files import LOCK, sole_owner, sweep, write_atomic
from glasshouse.types import JSON

Array = np.ndarray[Any, np.dtype[Any]]
EXTRAS = "labels.npz"
LOOKED_AT = 256  # images that were protected before, when a run goes on
RESTORING = ".restoring"  # lies in a directory whose restoring is not finished

#: Called with how many images are done.
Counted = Callable[[int], None]
#: Protects the images of one step, and returns the facts for the manifest.
Work = Callable[[int, list[Picture | Unreadable]], list[JSON]]


@dataclass(frozen=True, slots=True)
class Protected:
    """What a run did: images in the set, and the files that could not be read."""

    images: int
    unreadable: tuple[str, ...]


def protect(
    source: Path,
    directory: Path,
    *,
    key: bytes,
    epochs: int,
    files: str = "png",
    block_size: int | None = None,
    channel_wise: bool = True,
    workers: int = 1,
    progress: Counted = lambda images: None,
) -> Protected:
    """Write ``epochs`` shuffled versions of every image of a folder or NPZ file; the same call goes on after a kill."""
    checks.at_least("epochs", epochs, 1)
    checks.at_least("workers", workers, 1)
    checks.one_of("format", files, FORMATS)
    if directory.resolve().is_relative_to(source.resolve()):
        raise DataError(f"{directory} lies inside {source}: it would protect its own output; choose another directory.")
    opened = open_source(source)
    kind = "folder" if isinstance(opened, Folder) else "npz"
    header = Header(files, epochs, block_size, channel_wise, kind, key_check(key))
    with sole_owner(directory):
        manifest = Manifest(directory)
        if not manifest.path.exists() and any(path.name != ".lock" for path in directory.iterdir()):
            raise DataError(f"{directory} is not empty and holds no protected data set: choose another directory.")
        work = partial(_protect_step, directory, FORMATS[files], key, epochs, block_size, channel_wise)
        try:
            _protect_all(opened, directory, manifest, header, key, work, workers, progress)
        except GlasshouseError:
            _forget_if_nothing_was_written(directory, manifest)
            raise
    return _summary(manifest)


def _protect_all(
    source: Source,
    directory: Path,
    manifest: Manifest,
    header: Header,
    key: bytes,
    work: Work,
    workers: int,
    progress: Counted,
) -> None:
    """Protect what is left of a source, step by step."""
    step, done = manifest.begin(header)
    sweep(directory, *(path for path in directory.rglob("*") if path.is_dir()))
    _check_continues(source, manifest, done, directory, key)
    for chunk, facts in _in_order(work, _chunks(source, done, FORMATS[header.files].images), step, workers):
        step, done = step + 1, done + len(chunk)
        manifest.close_step(facts, step, done)
        progress(done)
    _write_extras(directory, source)
    manifest.finish()


def _forget_if_nothing_was_written(directory: Path, manifest: Manifest) -> None:
    """Leave no manifest of nothing, which would refuse the next try with other settings."""
    if {path.name for path in directory.iterdir()} <= {manifest.path.name, LOCK}:
        manifest.path.unlink(missing_ok=True)


def unprotect(
    directory: Path, back: Path, *, key: bytes, epoch: int = 0, progress: Counted = lambda images: None
) -> int:
    """Restore every image from one epoch's version, to the bit, as PNG files; return how many.

    The same call goes on after a failure or a kill: what is there already was written whole.
    """
    manifest = Manifest(directory)
    header = manifest.header()
    if header.format != csvar.FORMAT.decode():
        raise DataError(f"{directory} has format {header.format}, this Glasshouse knows {csvar.FORMAT.decode()}.")
    if header.key_check != key_check(key):
        raise DataError(f"This key did not protect {directory}: give the key file that was used.")
    checks.one_of("format", header.files, FORMATS)
    checks.between("epoch", epoch, 0, header.epochs - 1)
    manifest.check_finished()
    begun = _begin_restoring(back, manifest)
    count = 0
    for version, pixels in _versions(directory, header, manifest, epoch):
        count += 1
        target = back / f"{_inside(version.identity)}.png"
        if target.exists():
            continue
        restored = csvar.unshuffle(
            pixels,
            key=key,
            ids=version.identity,
            epoch=epoch,
            block_size=header.block_size,
            channel_wise=header.channel_wise,
        )
        if original_check(key, version.identity, restored) != version.original:
            raise DataError(f"'{version.identity}' does not restore to what was protected: its file was changed.")
        write_atomic(target, encode(restored))
        progress(count)
    begun.unlink()
    return count


def _begin_restoring(back: Path, manifest: Manifest) -> Path:
    """Mark a directory as one that is being restored from this very set; refuse any other that is not empty."""
    mark, told = back / RESTORING, hashlib.sha256(manifest.path.read_bytes()).hexdigest()
    if mark.is_file() and mark.read_text(encoding="ascii", errors="replace") == told:
        sweep(back, *(path for path in back.rglob("*") if path.is_dir()))
        return mark
    if back.exists() and (not back.is_dir() or any(back.iterdir())):
        raise DataError(f"{back} is not empty: choose another directory.")
    write_atomic(mark, told.encode())
    return mark


def read_version(directory: Path, epoch: int) -> Iterator[tuple[str, Array]]:
    """The images of one epoch's version, as a client trains on them; one that was not made is refused."""
    manifest = Manifest(directory)
    header = manifest.header()
    checks.one_of("format", header.files, FORMATS)
    checks.between("epoch", epoch, 0, header.epochs - 1)
    for version, pixels in _versions(directory, header, manifest, epoch):
        yield version.identity, pixels


def _versions(directory: Path, header: Header, manifest: Manifest, epoch: int) -> Iterator[tuple[Version, Array]]:
    """Every version of an epoch with its pixels, checked against the manifest."""
    manifest.check_finished()
    wanted = (version for version in manifest.versions() if version.epoch == epoch)
    first, second = itertools.tee(wanted)
    for file, identities in grouped((version.file, version.identity) for version in first):
        found = FORMATS[header.files].read(directory, _inside(file), identities)
        for _, pixels in _paired(directory / file, identities, found):
            version = next(second)
            if _digest(pixels) != version.sha256:
                raise DataError(f"{directory / file} was changed since it was written: protect the data set again.")
            yield version, pixels


def _paired(file: Path, identities: list[str], found: Iterator[Array]) -> Iterator[tuple[str, Array]]:
    """Identities with their pixels, as many of one as of the other."""
    try:
        yield from zip(identities, found, strict=True)
    except ValueError as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{file} holds more or fewer images than the manifest says: protect them again.") from None


def _protect_step(
    directory: Path,
    files: Format,
    key: bytes,
    epochs: int,
    block_size: int | None,
    channel_wise: bool,
    step: int,
    chunk: list[Picture | Unreadable],
) -> list[JSON]:
    """Shuffle and write some images in every version; return the facts for the manifest."""
    facts: list[JSON] = [{"unreadable": one.name, "reason": one.reason} for one in chunk if isinstance(one, Unreadable)]
    pictures = [one for one in chunk if isinstance(one, Picture)]
    originals = [original_check(key, one.identity, one.pixels) for one in pictures]
    for epoch in range(epochs if pictures else 0):
        options = {"key": key, "epoch": epoch, "block_size": block_size, "channel_wise": channel_wise}
        named = [(one.identity, csvar.shuffle(one.pixels, ids=one.identity, **options)) for one in pictures]  # type: ignore[arg-type]
        written = files.write(directory, epoch, step, named)
        for (identity, pixels), original, file in zip(named, originals, written, strict=True):
            facts.append(asdict(Version(identity, epoch, file, _digest(pixels), original)))
    return facts


def _in_order(
    work: Work,
    chunks: Iterator[list[Picture | Unreadable]],
    step: int,
    workers: int,
) -> Iterator[tuple[list[Picture | Unreadable], list[JSON]]]:
    """Work on chunks, some at once, and yield them in their order; only a few are ever in memory."""
    numbered = enumerate(chunks, start=step)
    if workers == 1:
        for number, chunk in numbered:
            yield chunk, work(number, chunk)
        return
    waiting: list[tuple[list[Picture | Unreadable], Future[list[JSON]]]] = []
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        for number, chunk in numbered:
            waiting.append((chunk, pool.submit(work, number, chunk)))
            if len(waiting) > 2 * workers:
                first, future = waiting.pop(0)
                yield first, future.result()
        for first, future in waiting:
            yield first, future.result()


def _chunks(source: Source, skip: int, size: int) -> Iterator[list[Picture | Unreadable]]:
    """Images in steps of one size, from where an earlier run stopped."""
    pictures = source.pictures(skip)
    while chunk := list(itertools.islice(pictures, size)):
        yield chunk


def _check_continues(source: Source, manifest: Manifest, done: int, directory: Path, key: bytes) -> None:
    """Refuse to go on with a source whose first images are not those that were protected so far.

    Of an archive names are numbers, which say nothing: some images, spread over all, are looked at as well.
    """
    names = itertools.islice(source.names(), done)
    before = [fact for fact in manifest.facts() if fact.get("epoch") == 0 or "unreadable" in fact]
    made = [fact for fact in before if "identity" in fact]
    originals = {fact["identity"]: fact["original"] for fact in made[:: -(-len(made) // LOOKED_AT) or 1]}
    if sorted(map(_name, before)) != sorted(names) or any(
        isinstance(one, Unreadable) or original_check(key, one.identity, one.pixels) != originals[one.identity]
        for one in source.some(originals)
    ):
        raise DataError(
            f"{directory} was protected from other images than the source holds now: choose another directory."
        )


def _name(fact: JSON) -> str:
    """The identity that a fact of the manifest is about; unreadable files are named with their suffix."""
    return str(fact["identity"]) if "identity" in fact else Path(fact["unreadable"]).with_suffix("").as_posix()


def _write_extras(directory: Path, source: Source) -> None:
    """Labels and class names beside the versions; they are not protected."""
    extras = source.extras()
    if extras and not (directory / EXTRAS).exists():
        buffer = io.BytesIO()
        np.savez(buffer, **extras)  # type: ignore[arg-type]
        write_atomic(directory / EXTRAS, buffer.getvalue())


def _summary(manifest: Manifest) -> Protected:
    images, unreadable = 0, []
    for fact in manifest.facts():
        images += fact.get("epoch") == 0
        if "unreadable" in fact:
            unreadable.append(f"{fact['unreadable']}: {fact['reason']}")
    if not images:
        raise DataError(
            "There is no readable image in the source: " + (unreadable[0] if unreadable else "it is empty.")
        )
    return Protected(images, tuple(unreadable))


def _digest(pixels: Array) -> str:
    return hashlib.sha256(repr(pixels.shape).encode() + np.ascontiguousarray(pixels).tobytes()).hexdigest()


def _inside(name: str) -> str:
    """A name from a manifest, which others may have written: refused where it leads out of the directory."""
    if Path(name).is_absolute() or ".." in Path(name).parts:
        raise DataError(f"The manifest names '{name}', which lies outside the directory: it may be hostile.")
    return name
