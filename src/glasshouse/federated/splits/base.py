"""The contract of splits: an author writes ``deal``, the base class checks that every image has one owner."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, final

import numpy as np

from glasshouse.errors import DataError
from glasshouse.registry import Registry

FEWEST = 2  # images that a client is dealt by chance: batch norm cannot train on one


class Split(ABC):
    """Deals the images of a data set out to clients, by their labels and a seed alone."""

    name: ClassVar[str]
    paper: ClassVar[str]

    @final
    def __call__(self, labels: Sequence[int], clients: int, *, seed: int) -> list[list[int]]:
        """The places of each client's images, in increasing order; each image belongs to one client."""
        if len(labels) < clients:
            raise DataError(f"{len(labels)} images are too few for {clients} clients: give each one, or have fewer.")
        dealt = self.deal(np.asarray(labels), clients, np.random.default_rng(seed))
        return [sorted(int(place) for place in part) for part in dealt]

    @abstractmethod
    def deal(self, labels: np.ndarray, clients: int, rng: np.random.Generator) -> list[np.ndarray]:
        """The places of each client's images in any order."""


splits: Registry[Split] = Registry("split", "glasshouse.federated.splits")
