"""The victim's side: what a client would share of these images, and what an attacker sees of it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from glasshouse.defenses import Defense
from glasshouse.errors import GlasshouseError, ModelError
from glasshouse.functional.gradients import signal_to_noise_db
from glasshouse.functional.local import batches_in_order
from glasshouse.models.batchnorm import batchnorm_mode, watched
from glasshouse.studies.conditions import USUAL, Conditions
from glasshouse.training import Computed, Gradients, Samples, plain_gradients
from glasshouse.types import BatchNorm, ImageSpec, Observation, SharedUpdate


@dataclass(frozen=True, slots=True, eq=False)
class Shared:
    """An observation, and how much of the gradient the defense left in it."""

    seen: Observation
    snr_db: float


def share(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    defense: Defense,
    *,
    image: ImageSpec,
    batchnorm: BatchNorm,
    give_labels: bool,
    rng: torch.Generator,
    conditions: Conditions = USUAL,
) -> Shared:
    """Compute the gradient of a batch as a client does, defend it, and hand over what the server sees.

    ``model`` is the one that the client computes with, after the defense's ``on_model``. Where the server sees several
    messages, the client defends each anew. The signal-to-noise ratio compares the first with what would have been
    shared of the raw images.
    """
    own_samples = Samples(images, labels, image.classes)
    raw = conditions.shared(_trained(plain_gradients, model, own_samples, batchnorm, conditions))
    rounds = []
    for _ in range(conditions.observations):
        samples = defense.on_samples(own_samples, rng=rng)
        own = _trained(partial(defense.compute, rng=rng), model, samples, batchnorm, conditions)
        rounds.append(message(conditions.shared(defense.on_gradients(own, rng=rng)), len(images), conditions))
    seen = Observation(
        rounds=tuple(rounds),
        image=image,
        batch_size=len(images),
        batchnorm=batchnorm,
        labels=labels if give_labels else None,
        running_statistics=batchnorm == "eval" or conditions.statistics != "none",
        batch_statistics=_statistics(model, samples, batchnorm) if conditions.statistics == "batch" else None,
    )
    return Shared(seen, signal_to_noise_db(list(raw.values()), list(rounds[0].tensors.values())))


def message(tensors: Gradients, images: int, conditions: Conditions) -> SharedUpdate:
    """What is sent: a gradient, or an update with how it came about."""
    if conditions.local_lr is None:
        return SharedUpdate(tensors)
    return SharedUpdate(
        tensors,
        kind="update",
        local_steps=conditions.steps(images),
        learning_rate=conditions.local_lr,
        local_batch=conditions.local_batch,
    )


def _trained(
    compute: Callable[[nn.Module, Samples], Computed],
    model: nn.Module,
    samples: Samples,
    batchnorm: BatchNorm,
    conditions: Conditions,
) -> Gradients:
    """What a client has to share: its gradient, or the weights before minus those after local training by plain SGD."""
    if conditions.local_lr is None:
        return _computed(compute, model, samples, batchnorm)
    twin = copy.deepcopy(model)
    count = len(samples.images)
    for part in batches_in_order(count, conditions.local_batch, conditions.steps(count)):
        batch = Samples(samples.images[part], samples.targets[part], samples.classes)
        found = _computed(compute, twin, batch, batchnorm)
        with torch.no_grad():
            for name, parameter in twin.named_parameters():
                if name in found:
                    parameter.sub_(conditions.local_lr * found[name])
    after = dict(twin.named_parameters())
    return {name: (value - after[name]).detach() for name, value in model.named_parameters() if value.requires_grad}


def _statistics(model: nn.Module, samples: Samples, batchnorm: BatchNorm) -> tuple[tuple[Tensor, Tensor], ...]:
    """Mean and variance of the private batch in every call of batch norm."""
    with torch.no_grad(), batchnorm_mode(model, batchnorm), watched(model, len(samples.images)) as found:
        model(samples.images)
    return tuple((one.mean[0], one.variance[0]) for one in found)


def _computed(
    compute: Callable[[nn.Module, Samples], Computed], model: nn.Module, samples: Samples, batchnorm: BatchNorm
) -> Gradients:
    """The gradient by parameter name; one that nothing can be reconstructed from is refused."""
    try:
        with batchnorm_mode(model, batchnorm):
            found = compute(model, samples).gradients
    except GlasshouseError:
        raise
    except (ValueError, RuntimeError) as error:
        raise ModelError(
            f"The model has no gradient of a batch of {len(samples.images)} with batch norm in {batchnorm} mode "
            f"({str(error).splitlines()[0]}): use a larger --batch, larger images or --bn eval."
        ) from error
    broken = [name for name, gradient in found.items() if not bool(gradient.isfinite().all())]
    if broken:
        raise ModelError(
            f"The gradient of {broken[0]} is NaN or infinite: check the model's weights and the images; "
            "nothing can be reconstructed from it."
        )
    if not any(bool(gradient.any()) for gradient in found.values()):
        raise ModelError("The gradient is exactly zero: the model has nothing left to learn from these images.")
    return found
