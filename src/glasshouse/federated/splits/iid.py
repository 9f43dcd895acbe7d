"""Every client gets the same mixture of classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from glasshouse.federated.splits.base import Split, splits


@splits.register("iid")
@dataclass(frozen=True, kw_only=True)
class IID(Split):
    """Shuffles all images and deals them out evenly."""

    paper: ClassVar[str] = "McMahan et al. 2017, Communication-Efficient Learning of Deep Networks"

    def deal(self, labels: np.ndarray, clients: int, rng: np.random.Generator) -> list[np.ndarray]:
        """Parts whose sizes differ by one image at most."""
        return np.array_split(rng.permutation(len(labels)), clients)
