"""RMIA: how often does an image gain more by the target's training than an image of the population."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from glasshouse import checks
from glasshouse.errors import SettingError
from glasshouse.functional.roc import roc
from glasshouse.membership.base import ShadowAttack, membership
from glasshouse.membership.queries import of_label
from glasshouse.membership.shadows import Shadows
from glasshouse.registry import setting

Mode = Literal["offline", "online"]
STEPS = 10  # of the search for a between 0 and 1
FEWEST_TO_TUNE = 4


@membership.register("rmia")
@dataclass(frozen=True, kw_only=True)
class RMIA(ShadowAttack):
    """Compares an image's likelihood ratio with those of public images; a few shadow models are enough."""

    paper: ClassVar[str] = "Zarifzadeh et al. 2024, Low-Cost High-Power Membership Inference Attacks"

    mode: Mode = setting("offline", "offline: shadows without the image tell p(x); online: those with it as well")
    gamma: float = setting(1.0, "how many times larger the image's ratio must be to count (the authors' code: 1)")
    a: float | None = setting(None, "offline p(x) = ((1 + a) p_out(x) + 1 - a) / 2; none: tuned on a shadow model")

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.at_least("gamma", self.gamma, 1e-6)
        if self.a is not None:
            checks.between("a", self.a, 0, 1)
        elif self.shadows < FEWEST_TO_TUNE:
            raise SettingError(
                f"shadows={self.shadows} are too few to tune a on one of them: give a=0.3, or {FEWEST_TO_TUNE} shadows."
            )

    def compare(self, target: Tensor, said: Tensor, shadows: Shadows) -> Tensor:
        """Return the share of public images whose ratio is smaller."""
        asked, logs = (of_label(one.log_softmax(-1), shadows.pool.targets) for one in (target, said))
        known = Known(logs, shadows.inside, shadows.candidates, self.mode == "online", self.gamma)
        return known.scores(asked, self.a if self.a is not None else known.tuned())


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """Log-probabilities (S, N) that shadows give to candidates, then public images, and which of them they saw."""

    logs: Tensor
    inside: Tensor
    candidates: int
    online: bool
    gamma: float

    def scores(self, target: Tensor, a: float) -> Tensor:
        """Scores (candidates,) of the target's log-probabilities (N,)."""
        ratios = target - expected(self.logs, self.inside, a, online=self.online)
        return share_below(ratios[: self.candidates], ratios[self.candidates :], self.gamma)

    def tuned(self) -> float:
        """The ``a`` with which the other shadows attack the first one best; its pair knows too much and is left out."""
        others = Known(self.logs[2:], self.inside[2:], self.candidates, self.online, self.gamma)
        member = self.inside[0, : self.candidates]
        found = {}
        for step in range(STEPS + 1):
            scores = others.scores(self.logs[0], step / STEPS)
            found[step / STEPS] = roc(scores[member].numpy(), scores[~member].numpy()).auc
        return max(found, key=lambda a: found[a])


def expected(logs: Tensor, inside: Tensor, a: float, *, online: bool) -> Tensor:
    """Log of p(x) (N,): how probable an image is to a model that may or may not have seen it.

    Offline, and for images that no shadow saw, from the mean over the shadows that did not see it; online the mean of
    that and of the mean over those that did.
    """
    outs, ins = (~inside).sum(0), inside.sum(0)
    if not bool((outs > 0).all()):
        raise SettingError("Some images are in every shadow model: use more shadows.")
    out = logs.masked_fill(inside, -torch.inf).logsumexp(0) - outs.log()
    offline = _blend(out, torch.zeros_like(out), (1 + a) / 2)
    if not online:
        return offline
    within = logs.masked_fill(~inside, -torch.inf).logsumexp(0) - ins.log()
    return torch.where(ins > 0, _blend(out, within, 0.5), offline)


def share_below(ratios: Tensor, population: Tensor, gamma: float) -> Tensor:
    """For each log-ratio (N,) the share of the population's (Z,) that are at least ``gamma`` times smaller."""
    ordered = population.sort().values
    return torch.searchsorted(ordered, ratios - math.log(gamma), right=True).double() / len(population)


def _blend(first: Tensor, second: Tensor, weight: float) -> Tensor:
    """log(weight exp(first) + (1 - weight) exp(second))."""
    if weight == 1:
        return first
    return torch.logaddexp(first + math.log(weight), second + math.log1p(-weight))
