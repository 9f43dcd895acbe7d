"""The labels an attacker works with: given, or read off the last layer's gradient."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from glasshouse.attacks.targets import mean_gradient
from glasshouse.errors import CapabilityError
from glasshouse.functional.gradients import parameter_names
from glasshouse.functional.labels import label_counts, row_sum_label, single_label
from glasshouse.types import Observation

PROBES = 64


def row_sum_labels(model: nn.Module, seen: Observation, *, rng: torch.Generator) -> Tensor:
    """The label of one image as iDLG reads it; labels of a batch as ``recovered_labels`` does."""
    if seen.batch_size > 1:
        return recovered_labels(model, seen, rng=rng)
    return torch.tensor([row_sum_label(_last_layer(model, seen)[1])])


def known_labels(model: nn.Module, seen: Observation, *, rng: torch.Generator) -> Tensor:
    """The labels given to the attacker, else those recovered from the gradient: (batch,)."""
    return recovered_labels(model, seen, rng=rng) if seen.labels is None else seen.labels


def recovered_labels(model: nn.Module, seen: Observation, *, rng: torch.Generator) -> Tensor:
    """Read the labels off the last layer's gradient: exact for one image, an estimate for a batch."""
    bias, weight = _last_layer(model, seen)
    if seen.batch_size == 1:
        return torch.tensor([single_label(bias, weight)])
    if bias is None:
        raise CapabilityError(
            "Labels of a batch can only be recovered from the gradient of a last layer with a bias, and this "
            "model has none: give the labels, or use a batch of 1."
        )
    probes = torch.rand((PROBES, *seen.image.shape), generator=rng)
    with torch.no_grad():
        probabilities = model(probes).softmax(1).mean(0)
    counts = label_counts(bias, probabilities, seen.batch_size)
    return torch.arange(len(counts)).repeat_interleave(counts)


def _last_layer(model: nn.Module, seen: Observation) -> tuple[Tensor | None, Tensor]:
    """Gradients of the classifier's bias, if there is one, and weight."""
    shared = mean_gradient(seen)
    classes = seen.image.classes
    for name in reversed(parameter_names(model)):
        stem, _, kind = name.rpartition(".")
        if kind == "weight" and name in shared and shared[name].ndim == 2 and len(shared[name]) == classes:
            return shared.get(f"{stem}.bias"), shared[name]
    raise CapabilityError(
        f"Labels cannot be recovered: no last linear layer with {classes} outputs is shared. Give the labels, "
        "or let them be optimised along (invgrad:labels=optimised)."
    )
