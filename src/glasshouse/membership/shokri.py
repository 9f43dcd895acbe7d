"""Shokri's attack: a classifier for each class learns from shadow models how predictions for members look."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from glasshouse import checks
from glasshouse.membership.base import ShadowAttack, membership
from glasshouse.membership.queries import of_label
from glasshouse.membership.shadows import Shadows
from glasshouse.registry import setting

FEWEST = 20  # examples of each kind that a class needs for a classifier of its own
LEAST = -30.0  # log-probability below which differences say nothing

Array = np.ndarray[Any, np.dtype[Any]]


@membership.register("shokri")
@dataclass(frozen=True, kw_only=True)
class Shokri(ShadowAttack):
    """Trains a classifier for each class on shadow models' predictions for images they saw and did not see."""

    paper: ClassVar[str] = "Shokri et al. 2017, Membership Inference Attacks Against Machine Learning Models"

    top: int = setting(3, "largest probabilities that the classifier sees, beside the label's own")

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.at_least("top", self.top, 0)

    def compare(self, target: Tensor, said: Tensor, shadows: Shadows) -> Tensor:
        """Return log-odds of membership."""
        pool = shadows.pool.targets
        examples = features(said, pool, self.top).flatten(0, 1).numpy()
        classes, member = pool.repeat(len(shadows)).numpy(), shadows.inside.flatten().numpy()
        asked = features(target, pool, self.top)[: shadows.candidates].numpy()
        labels = pool[: shadows.candidates].numpy()
        scores = log_odds(examples, member, asked)
        for label in np.unique(labels):
            same, here = classes == label, labels == label
            if min(member[same].sum(), (~member[same]).sum()) >= FEWEST:
                scores[here] = log_odds(examples[same], member[same], asked[here])
        return torch.from_numpy(scores)


def log_odds(examples: Array, member: Array, asked: Array) -> Array:
    """Log-odds of membership (N,) by logistic regression on standardised features, members counting half."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    regression = LogisticRegression(class_weight="balanced", solver="newton-cholesky")
    found: Array = make_pipeline(StandardScaler(), regression).fit(examples, member).decision_function(asked)
    return found


def features(logits: Tensor, labels: Tensor, top: int) -> Tensor:
    """The label's log-probability, then the ``top`` largest in falling order: (..., N, 1 + top)."""
    logs = logits.log_softmax(-1).clamp_min(LEAST)
    largest = logs.topk(min(top, logs.shape[-1]), -1).values
    return torch.cat([of_label(logs, labels)[..., None], largest], -1)
