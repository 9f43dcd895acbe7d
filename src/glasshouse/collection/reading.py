"""A protected data set as a client trains on it: another version of every image in each epoch, and its label."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np
import torch
from torch import Tensor

from glasshouse.collection.manifest import NAME, Manifest
from glasshouse.collection.protect import EXTRAS, read_version
from glasshouse.data.base import Split
from glasshouse.data.npz import UNREADABLE
from glasshouse.errors import DataError
from glasshouse.functional.layout import planar
from glasshouse.types import ImageSpec


def is_protected(path: Path) -> bool:
    """Whether a directory is one that ``protect`` wrote."""
    return (path / NAME).is_file()


@dataclass(frozen=True, eq=False)
class ProtectedSet:
    """The protected images of one split, in the order of their names; no original is ever opened.

    ``labels`` and ``class_names`` were never protected; ``epochs`` is how many versions there are.
    """

    directory: Path
    ids: tuple[str, ...]
    labels: tuple[int, ...]
    class_names: tuple[str, ...]
    epochs: int
    spec: ImageSpec

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def digest(self) -> str:
        """A hash of the manifest, which holds one of each version of each image."""
        return hashlib.sha256((self.directory / NAME).read_bytes()).hexdigest()

    def version(self, epoch: int, places: Sequence[int] | None = None) -> Tensor:
        """One epoch's version of the images at some places, (N, C, H, W) in [0, 1]."""
        wanted = self.ids if places is None else [self.ids[place] for place in places]
        chosen = set(wanted)
        found = {identity: pixels for identity, pixels in read_version(self.directory, epoch) if identity in chosen}
        missing = sorted(chosen - set(found))
        if missing:
            raise DataError(
                f"{self.directory} lacks '{missing[0]}' in epoch {epoch}: its manifest names it; protect it again."
            )
        pixels = np.stack([found[identity] for identity in wanted])
        return planar(torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 255)


def open_protected(directory: Path, split: Split) -> ProtectedSet:
    """Open the training or test images of a protected directory; a protected folder has training images only."""
    manifest = Manifest(directory)
    header = manifest.header()
    manifest.check_finished()
    named = sorted({version.identity for version in manifest.versions() if version.epoch == 0})
    ids, labels, class_names = (_of_archive if header.source == "npz" else _of_folder)(directory, named, split)
    if not ids:
        raise DataError(
            f"{directory} holds no protected {split} images: protect a data set that has some, or name others."
        )
    spec = _spec(directory, ids, len(class_names))
    return ProtectedSet(directory, ids, labels, class_names, header.epochs, spec)


Named = tuple[tuple[str, ...], tuple[int, ...], tuple[str, ...]]


def _of_folder(directory: Path, named: list[str], split: Split) -> Named:
    """Classes are the sub-folders, as where the folder was not protected."""
    if split == "test":
        return (), (), ()
    folders = [one.parts[0] if len(one.parts) > 1 else "" for one in map(PurePosixPath, named)]
    names = sorted(set(folders))
    return tuple(named), tuple(names.index(one) for one in folders), tuple(one or "image" for one in names)


def _of_archive(directory: Path, named: list[str], split: Split) -> Named:
    """Labels lie beside the versions, under the number of the image."""
    ids = tuple(one for one in named if one.startswith(f"x_{split}/"))
    path = directory / EXTRAS
    try:
        with np.load(path, allow_pickle=False) as extras:
            held = extras[f"y_{split}"] if ids else np.empty(0, dtype=int)
            classes = (
                extras["class_names"] if "class_names" in extras.files else np.arange(int(held.max(initial=0)) + 1)
            )
        labels = tuple(int(held[int(one.partition("/")[2])]) for one in ids)
        names = tuple(str(one) for one in classes)
    except (*UNREADABLE, KeyError, IndexError, TypeError) as error:
        raise DataError(
            f"{path} does not give the labels of the {split} images ({error}): protect an .npz file with y_{split}."
        ) from error
    if labels and not 0 <= min(labels) <= max(labels) < len(names):
        raise DataError(
            f"{path}: labels range from {min(labels)} to {max(labels)}, but there are {len(names)} classes."
        )
    return ids, labels, names


def _spec(directory: Path, ids: tuple[str, ...], classes: int) -> ImageSpec:
    """What every image looks like; images of different shapes are refused."""
    chosen = set(ids)
    shapes = {pixels.shape for identity, pixels in read_version(directory, 0) if identity in chosen}
    if len(shapes) > 1:
        raise DataError(
            f"The images of {directory} have {len(shapes)} different shapes: resize them before they are protected."
        )
    height, width, channels = shapes.pop()
    return ImageSpec(channels, height, width, classes)
