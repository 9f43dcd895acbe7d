"""LiRA: is the target as sure of an image as models that saw it, or as those that did not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from glasshouse.errors import SettingError
from glasshouse.membership.base import ShadowAttack, membership
from glasshouse.membership.queries import of_label
from glasshouse.membership.shadows import Shadows
from glasshouse.registry import setting

Mode = Literal["online", "offline"]
FLOOR = 1e-6  # variance below which a few shadows that happen to agree prove nothing


@membership.register("lira")
@dataclass(frozen=True, kw_only=True)
class LiRA(ShadowAttack):
    """Compares the logit-scaled confidence with normal distributions over shadow models, one pair for each image."""

    paper: ClassVar[str] = "Carlini et al. 2022, Membership Inference Attacks From First Principles"
    fewest: ClassVar[int] = 4  # fewer give no variance

    mode: Mode = setting("online", "online: shadows with and without each image; offline: those without it only")
    fixed_variance: bool = setting(True, "one variance for all images, better with fewer than about 64 shadows")
    mirror: bool = setting(False, "ask about the mirrored image as well, for models trained on mirrored images")

    def queries(self, images: Tensor) -> dict[str, Tensor]:
        """The images, and their mirror images where asked for."""
        return {"plain": images, "mirrored": images.flip(3)} if self.mirror else {"plain": images}

    def compare(self, target: Tensor, said: Tensor, shadows: Shadows) -> Tensor:
        """Return log-likelihood ratios (online) or standard scores (offline)."""
        labels = shadows.pool.targets[: shadows.candidates]
        return likelihood_scores(
            scaled_confidence(target[: shadows.candidates], labels),
            scaled_confidence(said[:, : shadows.candidates], labels),
            shadows.of_candidates,
            mode=self.mode,
            fixed_variance=self.fixed_variance,
        )


def scaled_confidence(logits: Tensor, labels: Tensor) -> Tensor:
    """log(p / (1 - p)) of the label (..., N), from logits (..., N, classes).

    That is the label's logit minus the log of the sum of the other classes' exponentials: exact where p is so near
    to 0 or 1 that no number holds 1 - p.
    """
    wide = logits.double()
    others = wide.scatter(-1, labels.expand(wide.shape[:-1])[..., None], -torch.inf)
    return of_label(wide, labels) - others.logsumexp(-1)


def likelihood_scores(target: Tensor, shadows: Tensor, inside: Tensor, *, mode: Mode, fixed_variance: bool) -> Tensor:
    """Scores (N,) of the target's statistics (N,) beside those of shadows (S, N), of which ``inside`` (S, N) saw it.

    Online: log N(target; in) - log N(target; out). Offline: (target - mean out) / deviation out, which orders images
    as the paper's 1 - Pr[N(out) > target] does and never rounds to 1.
    """
    outside = Normal.fitted(shadows, ~inside, fixed_variance)
    if mode == "offline":
        return (target - outside.mean) / outside.variance.sqrt()
    return Normal.fitted(shadows, inside, fixed_variance).log_density(target) - outside.log_density(target)


@dataclass(frozen=True, slots=True, eq=False)
class Normal:
    """A normal distribution for each image: mean (N,) and variance (N,)."""

    mean: Tensor
    variance: Tensor

    @classmethod
    def fitted(cls, values: Tensor, chosen: Tensor, fixed_variance: bool) -> Normal:
        """Fit to the chosen values (S, N) of each image; with ``fixed_variance`` deviations are pooled over images."""
        counts = chosen.sum(0)
        if not bool((counts > 0).all()):
            raise SettingError("Some images are in all shadow models or in none: use more shadows.")
        mean = (values * chosen).sum(0) / counts
        squares = ((values - mean).square() * chosen).sum(0)
        free = counts - 1
        if fixed_variance:
            squares, free = squares.sum().expand_as(squares), free.sum().expand_as(free)
        if not bool((free > 0).all()):
            raise SettingError("Some images have one shadow model only to tell a variance from: use more shadows.")
        return cls(mean, (squares / free).clamp_min(FLOOR))

    def log_density(self, values: Tensor) -> Tensor:
        """Log of the density at values (N,)."""
        scale = (2 * torch.pi * self.variance).log()
        return -((values - self.mean).square() / self.variance + scale) / 2
