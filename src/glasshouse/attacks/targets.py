"""What an attacker matches: the mean of all messages about the same images, as far as it trusts them."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

import torch
from torch import Tensor, nn

from glasshouse.errors import SettingError
from glasshouse.functional.gradients import parameter_names
from glasshouse.types import Observation, SharedUpdate

JOINED = "+"  # between patterns, because commas end a setting


def mean_gradient(seen: Observation) -> dict[str, Tensor]:
    """The gradient behind the messages about the same images, averaged over them, by parameter name.

    Noise that is drawn anew for every message averages out. An update counts as the mean gradient of its steps.
    """
    first = seen.rounds[0]
    alike = [as_gradient(one) for one in seen.rounds if _same_images(one, first)]
    return {name: torch.stack([one[name] for one in alike]).mean(0) for name in alike[0]}


def as_gradient(shared: SharedUpdate) -> Mapping[str, Tensor]:
    """A gradient as it is; an update divided by its steps and their size."""
    if shared.kind == "gradient" or shared.learning_rate is None:
        return shared.tensors
    moved = shared.learning_rate * shared.local_steps
    return {name: value / moved for name, value in shared.tensors.items()}


def _same_images(one: SharedUpdate, other: SharedUpdate) -> bool:
    return (one.indices, one.kind, one.local_steps) == (other.indices, other.kind, other.local_steps)


def trusted(model: nn.Module, shared: Mapping[str, Tensor], layers: str, skip: str) -> dict[str, Tensor]:
    """The gradients whose names fit ``layers`` and do not fit ``skip``: patterns with * and ?, joined by +.

    The pattern ``classifier`` stands for the last layer of the model that is a matrix.
    """
    names = [name for name in parameter_names(model) if name in shared]
    last = classifier(model)
    kept = [name for name in names if _fits(name, layers, last) and not _fits(name, skip, last)]
    if not kept:
        raise SettingError(
            f"layers={layers} without skip={skip} leaves no gradient to match: the message has {', '.join(names)}."
        )
    return {name: shared[name] for name in kept}


def _fits(name: str, patterns: str, last: str) -> bool:
    return any(fnmatchcase(name, f"{last}.*" if one == "classifier" else one) for one in patterns.split(JOINED))


def classifier(model: nn.Module) -> str:
    """The name of the last layer whose weight is a matrix."""
    shapes = {name: value.ndim for name, value in model.named_parameters()}
    return next((name.rpartition(".")[0] for name, axes in reversed(shapes.items()) if axes == 2), "")
