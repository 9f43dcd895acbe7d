"""Mixup: train on weighted sums of several images and of their labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from glasshouse import checks
from glasshouse.defenses.base import Defense, defenses
from glasshouse.errors import DataError, SettingError
from glasshouse.registry import setting
from glasshouse.training import Samples
from glasshouse.types import Stage

DRAWS = 1000  # how often coefficients above the cap are drawn anew before the settings are called hopeless


@defenses.register("mixup")
@dataclass(frozen=True, kw_only=True)
class Mixup(Defense):
    """Replaces every image by a mixture of itself and k - 1 others, and its label by the same mixture of labels."""

    paper: ClassVar[str] = "mixup: Beyond Empirical Risk Minimization"
    stages: ClassVar[frozenset[Stage]] = frozenset({Stage.IMAGES, Stage.LABELS})

    k: int = setting(2, "images in a mixture, its own among them")
    alpha: float = setting(1.0, "parameter of the Dirichlet distribution of coefficients; 1 draws all mixtures alike")
    cap: float = setting(0.65, "largest coefficient that any image of a mixture may have (published: 0.65)")

    def __post_init__(self) -> None:
        check(self.k, self.alpha, self.cap)

    @property
    def acts_on(self) -> str:
        """Where this defense acts, for tables."""
        return "images and labels"

    def on_samples(self, samples: Samples, *, rng: torch.Generator) -> Samples:
        """Return mixtures of the images, with class probabilities as targets."""
        return mixed(samples, k=self.k, alpha=self.alpha, cap=self.cap, rng=rng)


def check(k: int, alpha: float, cap: float) -> None:
    """Refuse settings of a mixture that nothing can be drawn with."""
    checks.between("k", k, 2, 64)
    checks.at_least("alpha", alpha, 0.01)
    checks.between("cap", cap, 0, 1)
    _check_cap(cap, k)


def mixed(samples: Samples, *, k: int, alpha: float, cap: float, rng: torch.Generator) -> Samples:
    """Mix every sample with ``k`` - 1 different others, or with all others where there are fewer.

    A single sample has no partner: its image stays, and its label becomes a probability of one.
    """
    count = len(samples.images)
    labels = _probabilities(samples)
    k = min(k, count)
    if k == 1:
        return Samples(samples.images, labels, samples.classes)
    partners = _partners(count, k, rng)
    weights = _coefficients(count, k, alpha, cap, rng).to(samples.images.dtype)
    images = torch.zeros_like(samples.images)
    targets = torch.zeros_like(labels)
    for chosen, weight in zip(partners.T, weights.T, strict=True):
        images += weight[:, None, None, None] * samples.images[chosen]
        targets += weight[:, None] * labels[chosen]
    return Samples(images.clamp(0, 1), targets, samples.classes)


def _probabilities(samples: Samples) -> Tensor:
    """The targets as class probabilities (N, classes)."""
    if samples.targets.ndim == 2:
        return samples.targets
    if samples.classes is None:
        raise DataError(
            "Mixing turns labels into class probabilities, but nobody said how many classes there are: "
            "give Samples(images, targets, classes=...)."
        )
    return F.one_hot(samples.targets, samples.classes).to(samples.images.dtype)


def _partners(count: int, k: int, rng: torch.Generator) -> Tensor:
    """Whom each sample is mixed with: (count, k), itself first, then different others, all choices alike."""
    others = torch.randint(count - 1, (count, k - 1), generator=rng)
    ordered = others.sort(1).values
    for row in (ordered[:, 1:] == ordered[:, :-1]).any(1).nonzero().flatten():
        others[row] = torch.randperm(count - 1, generator=rng)[: k - 1]
    own = torch.arange(count)[:, None]
    return torch.cat([own, others + (others >= own)], 1)


def _check_cap(cap: float, k: int) -> None:
    """Refuse a cap that ``k`` coefficients with sum 1 cannot keep."""
    if cap * k <= 1:
        raise SettingError(
            f"cap={cap:g} is too small: {k} coefficients have the sum 1, so one of them is at least {1 / k:.3g}. "
            "Use a larger cap, or mix more images."
        )


def _coefficients(count: int, k: int, alpha: float, cap: float, rng: torch.Generator) -> Tensor:
    """Coefficients (count, k) of sum 1 by a Dirichlet distribution; those with one above the cap are drawn anew."""
    _check_cap(cap, k)
    seed = int(torch.randint(2**62, (1,), generator=rng))
    source = np.random.default_rng(seed)
    found = source.dirichlet([alpha] * k, count)
    for _ in range(DRAWS):
        over = found.max(1) > cap
        if not over.any():
            return torch.from_numpy(found)
        found[over] = source.dirichlet([alpha] * k, int(over.sum()))
    raise SettingError(
        f"alpha={alpha:g} hardly ever draws {k} coefficients within cap={cap:g}: use a larger alpha or cap."
    )
