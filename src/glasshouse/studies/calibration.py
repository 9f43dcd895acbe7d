"""Public images: what an attacker may practise on, because it holds them itself."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from glasshouse import data
from glasshouse.data import ImageSet
from glasshouse.errors import DataError
from glasshouse.studies.materials import Materials, unlike


@dataclass(frozen=True, slots=True, eq=False)
class Public:
    """Images (N, C, H, W) with labels, none of them attacked, and where they come from."""

    images: Tensor
    labels: Tensor
    origin: str

    @property
    def digest(self) -> str:
        """A hash of images and labels."""
        content = self.images.numpy().tobytes() + self.labels.numpy().tobytes()
        return hashlib.sha256(content).hexdigest()[:24]


def public_images(
    source: str | None,
    materials: Materials,
    count: int,
    seed: int,
    *,
    size: int | None = None,
    root: Path | None = None,
    trained: Tensor | None = None,
) -> Public:
    """At most ``count`` images of the data set where it has a training part of its own, else crops of photographs.

    ``source`` is the data set, None for images that were handed over. Copies of attacked images are left out, and of
    those (M, C, H, W) that the attacked network was ``trained`` on: what it does to them says more than an attacker
    could know. Where training left too few, test images that nobody attacks stand in.
    """
    kept = materials.images if trained is None else torch.cat([materials.images, trained])
    found = None if source is None else data.load(source, root=root, size=size, split="train")
    if source is not None and found is not None and not set(found.ids) & set(materials.identities):
        images, labels = _strangers(_parts(found, count, seed), kept, count)
        parts = "training part"
        if len(images) < count:
            tested = data.load(source, root=root, size=size, split="test")
            rest = _strangers(_parts(tested, count, seed), kept, count - len(images))
            images, labels = torch.cat([images, rest[0]]), torch.cat([labels, rest[1]])
            parts = "training and test part"
        if len(images):
            return Public(images, labels, f"{source}, {parts}")
    images = materials.unattacked_crops(count, seed)
    labels = _any_labels(materials, count, seed)
    new = torch.tensor(unlike(images, kept))
    if not bool(new.any()):
        raise DataError("Every public image is a copy of an attacked one: attack fewer images, or do not tune.")
    return Public(images[new], labels[new], "crops of photographs")


def named_images(materials: Materials, count: int, seed: int, *, trained: Tensor | None = None) -> Public | None:
    """At most ``count`` of the public images that were named, of which none is attacked; None where there are none.

    Those that the attacked network was ``trained`` on are left out, too. An attacker who does not know their classes
    shares them under labels at random.
    """
    if materials.public is None:
        return None
    named = materials.public_labels
    labels = _any_labels(materials, len(materials.public), seed) if named is None else named
    kept = materials.images if trained is None else torch.cat([materials.images, trained])
    parts = zip(materials.public.split(2 * count), labels.split(2 * count), strict=True)
    images, labels = _strangers(parts, kept, count)
    return Public(images, labels, "those that were named") if len(images) else None


def _any_labels(materials: Materials, count: int, seed: int) -> Tensor:
    return torch.randint(0, materials.spec.classes, (count,), generator=torch.Generator().manual_seed(seed))


def _parts(found: ImageSet, count: int, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Images and labels of a data set, spread over its classes, twice as many at a time as are wanted."""
    order = found.spread(len(found), seed)
    return (found.batch(order[start : start + 2 * count]) for start in range(0, len(order), 2 * count))


def _strangers(parts: Iterable[tuple[Tensor, Tensor]], kept: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """At most ``count`` images that are no copies, with their labels; read only as far as needed."""
    images, labels = kept[:0], torch.empty(0, dtype=torch.long)
    for some, named in parts:
        new = torch.tensor(unlike(some, kept))
        images, labels = torch.cat([images, some[new]]), torch.cat([labels, named[new]])
        if len(images) >= count:
            break
    return images[:count], labels[:count]
