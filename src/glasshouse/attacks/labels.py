"""The labels an attacker works with: given, or read off the last layer's gradient."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glasshouse.errors import CapabilityError
from glasshouse.functional.gradients import parameter_names
from glasshouse.functional.labels import class_inputs, label_counts, row_sum_label, single_label
from glasshouse.types import Observation


def row_sum_labels(model: nn.Module, seen: Observation, *, rng: torch.Generator) -> Tensor:
    """The label of one image as iDLG reads it; labels of a batch as ``recovered_labels`` does."""
    if seen.batch_size > 1:
        return recovered_labels(model, seen, rng=rng)
    return torch.tensor([row_sum_label(seen.rounds[0].tensors[_last_layer(model, seen)[0]])])


def known_labels(model: nn.Module, seen: Observation, *, rng: torch.Generator) -> Tensor:
    """The labels given to the attacker, else those recovered from the gradient: (batch,)."""
    return recovered_labels(model, seen, rng=rng) if seen.labels is None else seen.labels


def recovered_labels(model: nn.Module, seen: Observation, *, rng: torch.Generator) -> Tensor:
    """Read the labels off the last layer's gradient: exact for one image, an estimate for a batch."""
    weight, bias = _last_layer(model, seen)
    shared = seen.rounds[0].tensors
    if seen.batch_size == 1:
        return torch.tensor([single_label(None if bias is None else shared[bias], shared[weight])])
    if bias is None:
        raise CapabilityError(
            "Labels of a batch can only be recovered from the gradient of a last layer with a bias, and this "
            "model has none: give the labels, or use a batch of 1."
        )
    inputs = class_inputs(shared[bias], shared[weight])
    logits = F.linear(inputs, model.get_parameter(weight), model.get_parameter(bias)).detach()
    counts = label_counts(shared[bias], logits.softmax(1), seen.batch_size)
    return torch.arange(len(counts)).repeat_interleave(counts)


def last_layer(model: nn.Module, classes: int) -> tuple[str, str | None] | None:
    """Names of weight and bias of the last linear layer with one output for each class, where there are such."""
    names = parameter_names(model)
    for name in reversed(names):
        stem, _, kind = name.rpartition(".")
        shape = model.get_parameter(name).shape
        if kind == "weight" and len(shape) == 2 and shape[0] == classes:
            bias = f"{stem}.bias" if stem else "bias"
            return name, bias if bias in names else None
    return None


def _last_layer(model: nn.Module, seen: Observation) -> tuple[str, str | None]:
    """The last layer; a model without one is refused."""
    found = last_layer(model, seen.image.classes)
    if found is None:
        raise CapabilityError(
            f"Labels cannot be recovered: the model has no last linear layer with {seen.image.classes} outputs. "
            "Give the labels."
        )
    return found
