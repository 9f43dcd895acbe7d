"""The victim's side: what a client would share of these images, and what an attacker sees of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor, nn

from glasshouse.defenses import Defense
from glasshouse.errors import GlasshouseError, ModelError
from glasshouse.functional.gradients import signal_to_noise_db
from glasshouse.models.batchnorm import batchnorm_mode
from glasshouse.training import Computed, Gradients, Samples, plain_gradients
from glasshouse.types import Batches, BatchNorm, ImageSpec, Observation, SharedUpdate


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
    batches: Batches | None = None,
    public: Tensor | None = None,
) -> Shared:
    """Compute the gradient of a batch as a client does, defend it, and hand over what the server sees.

    ``model`` is the one that the client computes with, after the defense's ``on_model``. ``batches`` are those that
    a server called up one after another, and so knows; without them there is one gradient of all images.
    The signal-to-noise ratio compares what is shared with the gradient of the raw images.
    """
    own_samples = Samples(images, labels, image.classes)
    samples = defense.on_samples(own_samples, rng=rng)
    rounds: list[SharedUpdate] = []
    clean: list[Tensor] = []
    for indices in [None] if batches is None else batches:
        chosen = list(range(len(images)) if indices is None else indices)
        raw = _computed(plain_gradients, model, _some(own_samples, chosen), batchnorm)
        own = _computed(partial(defense.compute, rng=rng), model, _some(samples, chosen), batchnorm)
        rounds.append(SharedUpdate(defense.on_gradients(own, rng=rng), indices=indices))
        clean += raw.values()
    seen = Observation(
        rounds=tuple(rounds),
        image=image,
        batch_size=len(images),
        batchnorm=batchnorm,
        labels=labels if give_labels else None,
        public=public,
        defense=defense.complete_spec,
    )
    return Shared(seen, signal_to_noise_db(clean, [tensor for one in rounds for tensor in one.tensors.values()]))


def _some(samples: Samples, chosen: list[int]) -> Samples:
    """Some of the samples, in the order asked for."""
    return replace(samples, images=samples.images[chosen], targets=samples.targets[chosen])


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
