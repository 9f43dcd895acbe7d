"""What a client trains on: its share of a data set, all of its own, or the versions of a protected directory."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from glasshouse import data
from glasshouse.collection import is_protected, open_protected
from glasshouse.data.base import Split
from glasshouse.errors import DataError, SettingError
from glasshouse.federated.plan import Federation
from glasshouse.federated.splits import splits
from glasshouse.training import Samples
from glasshouse.types import ImageSpec


@dataclass(frozen=True, eq=False)
class Pool:
    """Images to deal out: their labels are known at once, they themselves are read when somebody trains on them.

    ``read(places, epoch)`` gives images (N, C, H, W) in [0, 1] as they are in one epoch; ``versions`` is in how many
    epochs they differ, none where they never do, and ``digest`` a hash of all of them.
    """

    name: str
    labels: Sequence[int]
    class_names: tuple[str, ...]
    spec: ImageSpec
    read: Callable[[Sequence[int], int], Tensor]
    versions: int | None = None
    digest: str = ""

    def refuse(self, epochs: int) -> None:
        """Refuse where a version would have to serve twice."""
        if self.versions is not None and epochs > self.versions:
            raise DataError(
                f"{self.name} holds {self.versions} versions of each image, but {epochs} epochs are to come: "
                f"protect with --epochs {epochs}, or train for fewer rounds."
            )


@lru_cache(maxsize=2)
def open_pool(source: str, split: Split, size: int | None, root: Path | None) -> Pool:
    """Open a data set, an NPZ file, a folder or a protected directory; a process keeps the last two."""
    if is_protected(Path(source)):
        if size is not None:
            raise SettingError("Protected images cannot be resized, for blocks would blend: resize before protecting.")
        held = open_protected(Path(source), split)
        return Pool(
            source,
            held.labels,
            held.class_names,
            held.spec,
            lambda places, epoch: held.version(epoch, places),
            held.epochs,
            held.digest,
        )
    found = data.load(source, root=root, size=size, split=split)
    return Pool(source, found.labels, found.class_names, found.spec, lambda places, epoch: found.batch(places)[0])


@dataclass(frozen=True, eq=False)
class Holding:
    """The images of one client: places in a pool, with labels in the numbers that the federation uses."""

    pool: Pool
    places: tuple[int, ...]
    labels: Tensor
    class_names: tuple[str, ...]

    @classmethod
    def of(cls, pool: Pool, places: Sequence[int], class_names: Sequence[str]) -> Holding:
        """Hold some places of a pool; classes are matched by name, for a client may not have all of them."""
        unknown = sorted(set(pool.class_names) - set(class_names))
        if unknown:
            raise DataError(
                f"Class '{unknown[0]}' is not one of the federation's ({', '.join(class_names)}): rename or remove it."
            )
        numbers = [class_names.index(name) for name in pool.class_names]
        labels = torch.tensor([numbers[pool.labels[place]] for place in places])
        return cls(pool, tuple(places), labels, tuple(class_names))

    @property
    def classes(self) -> int:
        """How many classes the federation has."""
        return len(self.class_names)

    @property
    def spec(self) -> ImageSpec:
        """What every image looks like, and how many classes the federation has."""
        return dataclasses.replace(self.pool.spec, classes=self.classes)

    def __len__(self) -> int:
        return len(self.places)

    def in_epoch(self, epoch: int) -> Samples:
        """What there is to train on in one epoch."""
        return Samples(self.pool.read(self.places, epoch), self.labels, self.classes)

    def without(self, label: int) -> Holding:
        """The same without the images of one class."""
        kept = self.labels != label
        places = tuple(place for place, keep in zip(self.places, kept.tolist(), strict=True) if keep)
        return dataclasses.replace(self, places=places, labels=self.labels[kept])

    def beside(self, images: Tensor, label: int) -> Holding:
        """The same with images of the client's own making, all of one class, behind its others."""

        def read(places: Sequence[int], epoch: int) -> Tensor:
            return torch.cat([self.pool.read(self.places, epoch), images])[list(places)]

        labels = torch.cat([self.labels, torch.full((len(images),), label)])
        pool = Pool(self.pool.name, labels.tolist(), self.class_names, self.pool.spec, read, self.pool.versions)
        return Holding(pool, tuple(range(len(labels))), labels, self.class_names)


def open_test(plan: Federation, root: Path | None) -> Pool:
    """The images that a federation is tested on: all, or as many as the plan says, drawn by its seed.

    They are drawn from the other end than those that clients train on: of a set without a test part both are drawn from
    the same images.
    """
    pool = open_pool(plan.test or plan.dataset, "test", plan.size, root)
    if plan.test_images is None or plan.test_images >= len(pool.labels):
        return pool
    places = np.sort(_mixed(pool, plan.seed)[-plan.test_images :]).tolist()
    return dataclasses.replace(
        pool,
        labels=[pool.labels[place] for place in places],
        read=lambda some, epoch: pool.read([places[place] for place in some], epoch),
    )


def _mixed(pool: Pool, seed: int) -> NDArray[np.intp]:
    """The places of a pool's images in an order that a seed draws."""
    return np.random.default_rng(seed).permutation(len(pool.labels))


def dealt(plan: Federation, client: int, class_names: Sequence[str], root: Path | None) -> Holding:
    """A client's share of the plan's data, in a simulation; an adversary may hold less."""
    pool = open_pool(plan.dataset, "train", plan.size, root)
    pool.refuse(plan.epochs)
    chosen = np.sort(_mixed(pool, plan.seed)[: plan.images])
    labels = [pool.labels[place] for place in chosen]
    parts = splits.create(plan.split)(labels, plan.clients, seed=plan.seed)
    adversary = plan.adversary_at(client)
    if adversary is None:
        return Holding.of(pool, chosen[parts[client]].tolist(), class_names)
    return adversary.dealt([Holding.of(pool, chosen[part].tolist(), class_names) for part in parts])


def owned(source: str, plan: Federation, class_names: Sequence[str], root: Path | None) -> Holding:
    """All training images of a client's own source, in a deployment."""
    pool = open_pool(source, "train", plan.size, root)
    pool.refuse(plan.epochs)
    return Holding.of(pool, range(len(pool.labels)), class_names)
