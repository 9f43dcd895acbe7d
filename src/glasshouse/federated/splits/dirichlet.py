"""Every client has a taste of its own: few classes where alpha is small, all alike where it is large."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from glasshouse import checks
from glasshouse.errors import SettingError
from glasshouse.federated.splits.base import FEWEST, Split, splits
from glasshouse.registry import setting

TRIES = 1000


@splits.register("dirichlet")
@dataclass(frozen=True, kw_only=True)
class Dirichlet(Split):
    """Deals each class out in shares that are drawn from a symmetric Dirichlet distribution."""

    paper: ClassVar[str] = "Yurochkin et al. 2019, Bayesian Nonparametric Federated Learning of Neural Networks"

    alpha: float = setting(0.3, "concentration: 0.1 is very uneven, 100 almost even")

    def __post_init__(self) -> None:
        checks.at_least("alpha", self.alpha, 1e-3)

    def deal(self, labels: np.ndarray, clients: int, rng: np.random.Generator) -> list[np.ndarray]:
        """Draw shares for every class, again where a client would be left with nothing to train on."""
        for _ in range(TRIES):
            parts = self._drawn(labels, clients, rng)
            if min(map(len, parts)) >= FEWEST:
                return parts
        raise SettingError(
            f"alpha={self.alpha:g} leaves one of {clients} clients with fewer than {FEWEST} of {len(labels)} images, "
            f"{TRIES} times in a row: use a larger alpha, fewer clients or more images."
        )

    def _drawn(self, labels: np.ndarray, clients: int, rng: np.random.Generator) -> list[np.ndarray]:
        owned: list[list[np.ndarray]] = [[] for _ in range(clients)]
        for label in np.unique(labels):
            places = rng.permutation(np.flatnonzero(labels == label))
            shares = rng.dirichlet(np.full(clients, self.alpha))
            cuts = (shares.cumsum()[:-1] * len(places)).round().astype(int)
            for own, part in zip(owned, np.split(places, cuts), strict=True):
                own.append(part)
        return [np.concatenate(own) for own in owned]
