"""Candidate classes: the truth and the classes that its original is most easily taken for.

They are computed on the original, never on a reconstruction, so that they are the same for each of its versions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from glasshouse import checks, data
from glasshouse.data import ImageSet
from glasshouse.errors import DataError, SettingError, WeightsError
from glasshouse.models import trunks

PER_CLASS = 10  # images that a class is known by
SIDE = 64
SMALL = 8
CHUNK = 32


@dataclass(frozen=True, slots=True, eq=False)
class ClassScores:
    """How strongly each original (N,) is taken for each class: (N, classes); ``by`` says what looked at them."""

    classes: tuple[str, ...]
    scores: np.ndarray
    by: str


def candidates(truth: str, classes: Sequence[str], scores: np.ndarray, count: int) -> tuple[str, ...]:
    """The truth and the ``count`` - 1 other classes of the highest scores, in the order of the alphabet."""
    checks.at_least("candidates", count, 2)
    ranked = [classes[place] for place in np.argsort(-scores, kind="stable")]
    others = [name for name in ranked if name != truth]
    return tuple(sorted({truth, *others[: count - 1]}))


def look(
    originals: Sequence[np.ndarray], names: Sequence[str], source: str, count: int, root: Path | None
) -> ClassScores:
    """Score 8-bit originals (H, W, C) of named classes against the classes of the data set that they come from.

    The classifier is the nearest class mean in the features of a published network; without its weights classes are
    compared by small thumbnails. Where the data set cannot be read, the originals themselves stand for their classes.
    Where there are no more than ``count`` classes, all are candidates and nobody need look.
    """
    known, labels, classes = _labelled(originals, names, source, root)
    if len(classes) <= count:
        return ClassScores(classes, np.zeros((len(originals), len(classes))), "every class")
    try:
        trunks.alexnet()
        embed, by = _features, "nearest class mean of AlexNet features"
    except WeightsError:
        embed, by = _thumbnails, "similarity of class thumbnails"
    points = embed(known)
    means = torch.stack([points[labels == label].mean(0) for label in range(len(classes))])
    return ClassScores(classes, -torch.cdist(embed(originals), means).numpy(), by)


def _labelled(
    originals: Sequence[np.ndarray], names: Sequence[str], source: str, root: Path | None
) -> tuple[Sequence[np.ndarray], Tensor, tuple[str, ...]]:
    """Pictures of every class, their labels, and the names of the classes."""
    try:
        found = data.load(source, root=root)
    except (DataError, SettingError):
        classes = tuple(sorted(set(names)))
        return originals, torch.tensor([classes.index(name) for name in names]), classes
    places = _some_of_each(found)
    used = sorted({found.labels[place] for place in places})
    labels = torch.tensor([used.index(found.labels[place]) for place in places])
    classes = tuple(found.class_names[label] for label in used)
    if not set(names) <= set(classes):
        raise DataError(f"{source} has no class '{min(set(names) - set(classes))}': give the data of the study.")
    return [found.read(place) for place in places], labels, classes


def _some_of_each(found: ImageSet) -> list[int]:
    """The first few places of each class."""
    places: dict[int, list[int]] = {}
    for place, label in enumerate(found.labels):
        kept = places.setdefault(label, [])
        if len(kept) < PER_CLASS:
            kept.append(place)
    return [place for kept in places.values() for place in kept]


def _features(pictures: Sequence[np.ndarray]) -> Tensor:
    """The last layer of AlexNet, averaged over the picture: (N, 256)."""
    images = _tensor(pictures, SIDE) * 2 - 1
    with torch.no_grad():
        return torch.cat([trunks.alexnet()(some)[-1].mean((2, 3)) for some in images.split(CHUNK)])


def _thumbnails(pictures: Sequence[np.ndarray]) -> Tensor:
    """Tiny copies without their mean brightness: (N, 192)."""
    small = _tensor(pictures, SMALL).flatten(1)
    return small - small.mean(1, keepdim=True)


def _tensor(pictures: Sequence[np.ndarray], side: int) -> Tensor:
    """8-bit pictures of any size as (N, 3, side, side) in [0, 1]."""
    resized = []
    for pixels in pictures:
        image = torch.from_numpy(np.array(pixels)).permute(2, 0, 1)[None].float() / 255
        resized.append(F.interpolate(image, size=(side, side), mode="bilinear", antialias=True).expand(-1, 3, -1, -1))
    return torch.cat(resized)
