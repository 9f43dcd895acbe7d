"""The labels an attacker works with: given, or read off the last layer's gradient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glasshouse.attacks.targets import mean_gradient
from glasshouse.errors import CapabilityError
from glasshouse.functional.gradients import parameter_names
from glasshouse.functional.labels import class_inputs, label_counts, row_sum_label, single_label
from glasshouse.types import Observation

OPTIMISED = "invgrad:labels=optimised"


@dataclass(frozen=True, slots=True, eq=False)
class LastLayer:
    """Weight (classes, inputs) and bias (classes,) of the classifier, and their gradients as the server saw them.

    All are on the CPU, whose numbers scipy takes; ``home`` is where they came from.
    """

    weight: Tensor
    bias: Tensor | None
    weight_gradient: Tensor
    bias_gradient: Tensor | None
    home: torch.device


def refuse_hidden_labels(model: nn.Module, seen: Observation) -> None:
    """Refuse, before any work, messages that labels cannot be read off."""
    found, shared = last_layer(model, seen.image.classes), seen.rounds[0].tensors
    if found is None or found[0] not in shared:
        raise CapabilityError(
            f"Labels cannot be recovered: no last linear layer with {seen.image.classes} outputs is shared. "
            f"Give the labels (--labels given), or let them be optimised along ({OPTIMISED})."
        )
    if seen.batch_size > 1 and (found[1] is None or found[1] not in shared):
        raise CapabilityError(
            f"Labels of {seen.batch_size} images cannot be recovered: that takes the gradient of the last layer's "
            "bias, and none is shared here. Give the labels (--labels given), let them be optimised along "
            f"({OPTIMISED}), or use a batch of 1."
        )


def row_sum_labels(model: nn.Module, seen: Observation) -> Tensor:
    """The label of one image as iDLG reads it; labels of a batch as ``recovered_labels`` does."""
    if seen.batch_size > 1:
        return recovered_labels(model, seen)
    layer = _last_layer(model, seen)
    return torch.tensor([row_sum_label(layer.weight_gradient)], device=layer.home)


def known_labels(model: nn.Module, seen: Observation) -> Tensor:
    """The labels given to the attacker, else those recovered from the gradient: (batch,)."""
    return recovered_labels(model, seen) if seen.labels is None else seen.labels


def recovered_labels(model: nn.Module, seen: Observation) -> Tensor:
    """Read the labels off the last layer's gradient: exact for one image, an estimate for a batch."""
    layer = _last_layer(model, seen)
    if seen.batch_size == 1:
        return torch.tensor([single_label(layer.bias_gradient, layer.weight_gradient)], device=layer.home)
    bias_gradient = cast(Tensor, layer.bias_gradient)  # refused above where there is none
    inputs = class_inputs(bias_gradient, layer.weight_gradient)
    logits = F.linear(inputs, layer.weight, layer.bias)
    counts = label_counts(bias_gradient, logits.softmax(1), seen.batch_size)
    return torch.arange(len(counts)).repeat_interleave(counts).to(layer.home)


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
    """The last layer with its gradients; where labels cannot be read off them, that is refused."""
    refuse_hidden_labels(model, seen)
    weight, bias = cast(tuple[str, str | None], last_layer(model, seen.image.classes))
    shared = mean_gradient(seen)
    biases = (None, None) if bias is None else (model.get_parameter(bias).detach(), shared.get(bias))
    own, gradient = (None if one is None else one.cpu() for one in biases)
    home = shared[weight].device
    return LastLayer(model.get_parameter(weight).detach().cpu(), own, shared[weight].cpu(), gradient, home)
