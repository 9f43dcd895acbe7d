"""The victim's side: what a client would share of these images, and what an attacker sees of it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor, nn

from glasshouse.defenses import Defense
from glasshouse.errors import GlasshouseError, ModelError, SettingError
from glasshouse.functional.gradients import signal_to_noise_db
from glasshouse.functional.local import batches_in_order
from glasshouse.models.batchnorm import batchnorm_mode, watched
from glasshouse.studies.conditions import USUAL, Conditions
from glasshouse.training import Computed, Gradients, Samples, plain_gradients
from glasshouse.types import Batches, BatchNorm, ImageSpec, Observation, SharedUpdate

LARGEST = 1e30  # beyond, squares overflow even where lengths are divided out first


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
    batches: Batches | None = None,
    public: Tensor | None = None,
) -> Shared:
    """Compute the gradient of a batch as a client does, defend it, and hand over what the server sees.

    ``model`` is the one that the client computes with, after the defense's ``on_model``. ``batches`` are those that
    a server called up one after another, and so knows; without them there is one message about all images. Where the
    server sees several messages about the same images, the client defends each anew. The signal-to-noise ratio
    compares the first with what would have been shared of the raw images.
    """
    own_samples = Samples(images, labels, image.classes)
    parts = [(indices, list(range(len(images)) if indices is None else indices)) for indices in batches or (None,)]
    train = partial(_trained, model=model, batchnorm=batchnorm, conditions=conditions)
    raw = [conditions.shared(train(plain_gradients, samples=_some(own_samples, chosen))) for _, chosen in parts]
    rounds = []
    for _ in range(conditions.observations):
        samples = defense.on_samples(own_samples, rng=rng)
        for indices, chosen in parts:
            own = train(partial(defense.compute, rng=rng), samples=_some(samples, chosen))
            defended = conditions.shared(defense.on_gradients(own, rng=rng))
            _refuse_huge(defended, defense)
            rounds.append(message(defended, len(chosen), conditions, indices))
    seen = Observation(
        rounds=tuple(rounds),
        image=image,
        batch_size=len(images),
        batchnorm=batchnorm,
        labels=labels if give_labels else None,
        public=public,
        defense=defense.complete_spec,
        running_statistics=batchnorm == "eval" or conditions.statistics != "none",
        batch_statistics=_statistics(model, samples, batchnorm) if conditions.statistics == "batch" else None,
    )
    clean = [tensor for one in raw for tensor in one.values()]
    sent = [tensor for one in rounds[: len(parts)] for tensor in one.tensors.values()]
    return Shared(seen, signal_to_noise_db(clean, sent))


def _refuse_huge(defended: Gradients, defense: Defense) -> None:
    """Refuse a message of numbers that no attack can compute with, and one of no numbers."""
    if not any(value.numel() for value in defended.values()):
        raise SettingError(f"Behind {defense.complete_spec} the message is empty: use a defense that shares something.")
    huge = [value for value in defended.values() if not bool((value.abs() <= LARGEST).all())]  # NaN is no less either
    if huge:
        raise SettingError(
            f"Behind {defense.complete_spec} the message holds numbers as large as {huge[0].abs().max():.1g}, too "
            "large to compute with in single precision: the defense is far stronger than any training could bear; "
            "use a weaker one."
        )


def _some(samples: Samples, chosen: list[int]) -> Samples:
    """Some of the samples, in the order asked for."""
    return replace(samples, images=samples.images[chosen], targets=samples.targets[chosen])


def message(
    tensors: Gradients, images: int, conditions: Conditions, indices: tuple[int, ...] | None = None
) -> SharedUpdate:
    """What is sent: a gradient, or an update with how it came about."""
    if conditions.local_lr is None:
        return SharedUpdate(tensors, indices=indices)
    return SharedUpdate(
        tensors,
        kind="update",
        local_steps=conditions.steps(images),
        learning_rate=conditions.local_lr,
        indices=indices,
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
    for step, part in enumerate(batches_in_order(count, conditions.local_batch, conditions.steps(count))):
        batch = Samples(samples.images[part], samples.targets[part], samples.classes)
        with _told_as_divergence(step, conditions.local_lr):
            found = _computed(compute, twin, batch, batchnorm)
        with torch.no_grad():
            for name, parameter in twin.named_parameters():
                if name in found:
                    parameter.sub_(conditions.local_lr * found[name])
    after = dict(twin.named_parameters())
    return {name: (value - after[name]).detach() for name, value in model.named_parameters() if value.requires_grad}


@contextmanager
def _told_as_divergence(step: int, rate: float) -> Iterator[None]:
    """Say of a gradient that is lost after the first local step what lost it: the rate of that training."""
    try:
        yield
    except ModelError as error:
        if not step:
            raise
        raise ModelError(
            f"Local training diverged in step {step + 1} at --local-lr {rate:g} ({error}) Use a smaller rate, such as "
            "0.01, or fewer --local-epochs."
        ) from error


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
