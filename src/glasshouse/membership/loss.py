"""The loss attack: a model is surer of the images that it was trained on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from glasshouse.membership.base import MembershipAttack, Public, membership
from glasshouse.membership.queries import logits, of_label
from glasshouse.registry import setting

Signal = Literal["loss", "entropy", "modified_entropy"]


@membership.register("loss")
@dataclass(frozen=True, kw_only=True)
class Loss(MembershipAttack):
    """Scores an image by minus its cross-entropy; needs no public images and no shadow models."""

    paper: ClassVar[str] = "Yeom et al. 2018, Privacy Risk in Machine Learning: Analyzing the Connection to Overfitting"

    signal: Signal = setting("loss", "cross-entropy, entropy (no label needed), or Song and Mittal's modified entropy")

    def run(
        self, model: nn.Module, candidates: Tensor, labels: Tensor, *, public: Public, rng: torch.Generator
    ) -> Tensor:
        """Return minus the loss, or minus the entropy."""
        return SIGNALS[self.signal](logits(model, candidates), labels)


def confidence(logits: Tensor, labels: Tensor) -> Tensor:
    """Minus the cross-entropy (N,) of logits (N, classes): the log-probability of the label."""
    return of_label(logits.log_softmax(1), labels)


def certainty(logits: Tensor, labels: Tensor) -> Tensor:
    """Minus the entropy (N,) of the prediction, whatever the label."""
    logs = logits.log_softmax(1)
    return (logs.exp() * logs).sum(1)


def modified_certainty(logits: Tensor, labels: Tensor) -> Tensor:
    """Minus the modified entropy (N,), which is lowest where the prediction is sure and right.

    Mentr = -(1 - p_y) log p_y - sum over i != y of p_i log(1 - p_i) (Song and Mittal 2021).
    """
    logs = logits.log_softmax(1)
    rest = log_complement(logits)
    terms = (logs.exp() * rest).scatter(1, labels[:, None], 0).sum(1)
    return of_label(rest.exp() * logs, labels) + terms


def log_complement(logits: Tensor) -> Tensor:
    """log(1 - p) of every class (N, classes); that of the likeliest from the others' logits, so that p may be 1."""
    top = logits.argmax(1, keepdim=True)
    others = logits.scatter(1, top, -torch.inf).logsumexp(1, keepdim=True) - logits.logsumexp(1, keepdim=True)
    return logits.softmax(1).neg().log1p().scatter(1, top, others)


SIGNALS: dict[Signal, Callable[[Tensor, Tensor], Tensor]] = {
    "loss": confidence,
    "entropy": certainty,
    "modified_entropy": modified_certainty,
}
