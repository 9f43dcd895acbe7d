"""The labels an attacker works with: given, or read off the last layer's gradient."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glasshouse.attacks.targets import mean_gradient
from glasshouse.errors import CapabilityError
from glasshouse.functional.gradients import parameter_names
from glasshouse.functional.labels import class_inputs, label_counts, row_sum_label, single_label
from glasshouse.types import Observation


@dataclass(frozen=True, slots=True, eq=False)
class LastLayer:
    """Weight (classes, inputs) and bias (classes,) of the classifier, and their gradients as the server saw them."""

    weight: Tensor
    bias: Tensor | None
    weight_gradient: Tensor
    bias_gradient: Tensor | None


def row_sum_labels(model: nn.Module, seen: Observation) -> Tensor:
    """The label of one image as iDLG reads it; labels of a batch as ``recovered_labels`` does."""
    if seen.batch_size > 1:
        return recovered_labels(model, seen)
    return torch.tensor([row_sum_label(_last_layer(model, seen).weight_gradient)])


def known_labels(model: nn.Module, seen: Observation) -> Tensor:
    """The labels given to the attacker, else those recovered from the gradient: (batch,)."""
    return recovered_labels(model, seen) if seen.labels is None else seen.labels


def recovered_labels(model: nn.Module, seen: Observation) -> Tensor:
    """Read the labels off the last layer's gradient: exact for one image, an estimate for a batch."""
    layer = _last_layer(model, seen)
    if seen.batch_size == 1:
        return torch.tensor([single_label(layer.bias_gradient, layer.weight_gradient)])
    if layer.bias_gradient is None:
        raise CapabilityError(
            "Labels of a batch can only be recovered from the gradient of a last layer with a bias, and this "
            "model has none: give the labels, or use a batch of 1."
        )
    inputs = class_inputs(layer.bias_gradient, layer.weight_gradient)
    logits = F.linear(inputs, layer.weight, layer.bias)
    counts = label_counts(layer.bias_gradient, logits.softmax(1), seen.batch_size)
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


def _last_layer(model: nn.Module, seen: Observation) -> LastLayer:
    """The last layer with its gradients; where it is not there or not shared, labels cannot be had."""
    found, shared = last_layer(model, seen.image.classes), mean_gradient(seen)
    if found is None or found[0] not in shared:
        raise CapabilityError(
            f"Labels cannot be recovered: no last linear layer with {seen.image.classes} outputs is shared. "
            "Give the labels, or let them be optimised along (invgrad:labels=optimised)."
        )
    weight, bias = found
    own = model.get_parameter(weight).detach(), None if bias is None else model.get_parameter(bias).detach()
    return LastLayer(*own, shared[weight], None if bias is None else shared.get(bias))
