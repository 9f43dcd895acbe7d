"""Fit a classifier with SGD, step decay and light augmentation, deterministically by seed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glasshouse import checks, devices
from glasshouse.errors import ModelError
from glasshouse.functional.layout import Lay, laid_as, planar, swiftest
from glasshouse.models import held
from glasshouse.training.client import Client, Samples
from glasshouse.types import Progress, no_progress

DECAY_AT = (3 / 8, 5 / 8, 7 / 8)
PADDING = 4


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How to train; the defaults are those of the SemSim and ATS papers but for the number of epochs."""

    epochs: int = 15
    batch: int = 128
    lr: float = 0.1
    momentum: float = 0.9
    weight_decay: float = 5e-4
    augment: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        checks.at_least("epochs", self.epochs, 1)
        checks.at_least("batch", self.batch, 2)
        checks.at_least("lr", self.lr, 1e-9)

    def steps(self, count: int, *, drawn: bool = True) -> int:
        """How many steps a training on ``count`` images takes, whose batches are drawn or else dealt out."""
        alone = not drawn and count > self.batch and count % self.batch == 1  # a last batch of one is left out
        return self.epochs * (math.ceil(count / self.batch) - alone)


def fit(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    recipe: Recipe,
    *,
    client: Client | None = None,
    decay_at: Sequence[float] = DECAY_AT,
    learning: Sequence[nn.Parameter] | None = None,
    rng: torch.Generator | None = None,
    after_epoch: Callable[[int], None] = lambda epochs: None,
    progress: Progress = no_progress,
) -> float:
    """Train a model in place on images in [0, 1] and return the mean loss of the last epoch.

    The client's defense sees the images first and augmentation comes after it, as where images are protected
    before they reach the machine that trains. The learning rate is divided by ten after these shares of the epochs.
    Of the parameters only those that are ``learning`` change, all but those of held parts where nobody names any.
    ``rng`` draws batches and augmentation; it follows from the recipe's seed where none is given, and a seed of torch's
    comes down to 32 bits, too few for a secret.
    ``after_epoch`` is told how many epochs are over, for who keeps or tries the model on its way.
    """
    client = client or Client()
    rng = rng or torch.Generator().manual_seed(recipe.seed)
    client.begin(recipe.steps(len(images)), min(recipe.batch / len(images), 1), min(recipe.batch, len(images)))
    with devices.placed(model, follows=client.follows_device) as device:
        samples = Samples(images, labels, _outputs(model, images[:1].to(device)))
        with swiftest(model, images[:1].to(device)) as lay:
            return _fit(model, samples, recipe, client, lay, rng, decay_at, learning, after_epoch, progress)


def accuracy(model: nn.Module, images: Tensor, labels: Tensor, *, batch: int = 64) -> float:
    """Share of images that a model in eval mode labels correctly."""
    right = 0
    with torch.no_grad(), devices.placed(model) as device:
        for inputs, truth in zip(images.split(batch), labels.split(batch), strict=True):
            right += int((model(inputs.to(device)).argmax(1).cpu() == truth).sum())
    return right / len(labels)


def _fit(
    model: nn.Module,
    samples: Samples,
    recipe: Recipe,
    client: Client,
    lay: Lay,
    rng: torch.Generator,
    decay_at: Sequence[float],
    learning: Sequence[nn.Parameter] | None,
    after_epoch: Callable[[int], None],
    progress: Progress,
) -> float:
    """Train where the model lies; samples wait on the CPU, where each batch is drawn and augmented before it moves."""
    images, labels, classes, device = samples.images, samples.targets, samples.classes, devices.home_of(model)
    optimizer = torch.optim.SGD(
        held.learning(model) if learning is None else learning,
        lr=recipe.lr,
        momentum=recipe.momentum,
        nesterov=recipe.momentum > 0,
        weight_decay=recipe.weight_decay,
        fused=True,
    )
    named = dict(model.named_parameters())  # once: to ask a large network for its names takes as long as a small layer
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, [math.ceil(recipe.epochs * at) for at in decay_at], 0.1)
    loss = float("nan")
    for epoch in range(recipe.epochs):
        model.train()
        total, seen = 0.0, 0
        epoch_samples = client.samples(Samples(planar(images), labels, classes))
        for batch in (_drawn if client.poisson else _dealt)(len(images), recipe.batch, rng):
            inputs = planar(epoch_samples.images[batch])
            inputs = _augmented(inputs, rng) if recipe.augment else inputs
            shown = Samples(lay(inputs), epoch_samples.targets[batch], classes).to(device)
            total += _step(model, named, optimizer, shown, client) * len(batch)
            seen += len(batch)
        schedule.step()
        loss = total / max(seen, 1)
        if not (math.isfinite(loss) and _is_finite(model)):  # the last step may be the one too many
            raise ModelError(f"Training diverged in epoch {epoch + 1}: use a smaller --lr than {recipe.lr:g}.")
        after_epoch(epoch + 1)
        progress((epoch + 1) / recipe.epochs)
    model.eval()
    return loss


def _is_finite(model: nn.Module) -> bool:
    """Whether all that a model has learned are numbers."""
    return all(bool(values.isfinite().all()) for values in model.state_dict().values())


def _outputs(model: nn.Module, images: Tensor) -> int:
    """How many classes a model tells apart."""
    model.eval()
    with torch.no_grad():
        return int(model(images).shape[1])


def _step(
    model: nn.Module,
    named: Mapping[str, nn.Parameter],
    optimizer: torch.optim.Optimizer,
    samples: Samples,
    client: Client,
) -> float:
    computed = client.gradients(model, samples)
    for name, parameter in named.items():
        found = computed.gradients.get(name)
        parameter.grad = None if found is None else laid_as(found, parameter)
    optimizer.step()
    return computed.loss


def _dealt(count: int, size: int, rng: torch.Generator) -> Iterator[Tensor]:
    """Shuffled batches; a last batch of one image is left out, because batch norm cannot train on it."""
    parts = torch.randperm(count, generator=rng).split(size)
    return (part for part in parts if len(part) > 1 or len(parts) == 1)


def _drawn(count: int, size: int, rng: torch.Generator) -> Iterator[Tensor]:
    """Batches that every image joins with the same chance, whatever the others do (Poisson sampling)."""
    for _ in range(math.ceil(count / size)):
        yield (torch.rand(count, generator=rng) < size / count).nonzero().flatten()


def _augmented(images: Tensor, rng: torch.Generator) -> Tensor:
    """Shift each image by up to four pixels and mirror half of them."""
    count, _, height, width = images.shape
    padded = F.pad(images, (PADDING,) * 4)
    top, left = (torch.randint(0, 2 * PADDING + 1, (count,), generator=rng) for _ in range(2))
    rows = top[:, None] + torch.arange(height)
    columns = left[:, None] + torch.arange(width)
    mirrored = torch.rand(count, generator=rng) < 0.5
    columns = torch.where(mirrored[:, None], columns.flip(1), columns)
    number = torch.arange(count)
    return planar(padded[number[:, None, None], :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2))
