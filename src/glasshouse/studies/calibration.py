"""Public images: what an attacker may practise on, because it holds them itself."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from glasshouse import data
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
) -> Public:
    """``count`` images of the data set's training part where it has one of its own, else crops of photographs.

    ``source`` is the data set, None for images that were handed over. Copies of attacked images are left out.
    """
    found = None if source is None else data.load(source, root=root, size=size, split="train")
    if found is not None and not set(found.ids) & set(materials.identities):
        places = found.spread(min(2 * count, len(found)), seed)
        images, labels = found.batch(places)
        new = torch.tensor(unlike(images, materials.images))
        return Public(images[new][:count], labels[new][:count], f"{source}, training part")
    images = materials.unattacked_crops(count, seed)
    labels = torch.randint(0, materials.spec.classes, (count,), generator=torch.Generator().manual_seed(seed))
    new = torch.tensor(unlike(images, materials.images))
    if not bool(new.any()):
        raise DataError("Every public image is a copy of an attacked one: attack fewer images, or do not tune.")
    return Public(images[new], labels[new], "crops of photographs")
