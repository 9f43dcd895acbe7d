"""CAFE: in vertical federation the server knows which images are in a batch, and takes large batches apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glasshouse import checks
from glasshouse.attacks.base import InversionAttack, attacks
from glasshouse.errors import ModelError
from glasshouse.functional.gradients import parameter_gradients, parameter_names, squared_distance
from glasshouse.functional.indexed import layer_inputs, loss_gradients, membership_shares
from glasshouse.functional.variation import total_variation
from glasshouse.models.vertical import Vertical
from glasshouse.registry import setting
from glasshouse.types import Batches, Capability, Observation, Progress, Reconstruction, SharedUpdate

MORE_ROUNDS = 10  # as many random batches more than images make the equations solvable for certain


@dataclass(frozen=True, slots=True, eq=False)
class Matched:
    """Where the workers meet, and what is known of every image: inputs of that layer (N, features), labels (N,)."""

    meeting: Vertical
    inputs: Tensor
    labels: Tensor


@attacks.register("cafe")
@dataclass(frozen=True, kw_only=True)
class CAFE(InversionAttack):
    """The first linear layer's output gradients, then its inputs, then the images by matching both.

    Ours is the variant for indexed batches of one model: the weights stand still while the batches are collected.
    """

    paper: ClassVar[str] = "Jin et al. 2021, CAFE: Catastrophic Data Leakage in Vertical Federated Learning"
    adversary: ClassVar[str] = "honest-but-curious server of a vertical federation"
    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.GRADIENT, Capability.SAMPLE_INDICES})

    rounds: int | None = setting(None, "batches of half of the images that the server calls; none for images + 10")
    steps: int = setting(600, "optimiser steps of the third part")
    lr: float = setting(0.05, "first step size of Adam in [0, 1] pixels; it falls to zero along a cosine")
    features: float = setting(1e-3, "weight of the squared distance of the layer's inputs (published: 1e-3)")
    tv: float = setting(1e-4, "weight of total variation")

    def __post_init__(self) -> None:
        if self.rounds is not None:
            checks.at_least("rounds", self.rounds, 1)
        checks.at_least("steps", self.steps, 1)
        checks.at_least("lr", self.lr, 1e-9)
        checks.at_least("features", self.features, 0)
        checks.at_least("tv", self.tv, 0)

    def batches(self, images: int) -> Batches:
        """Random halves of the images, as the server of a vertical federation calls them up."""
        rng = torch.Generator().manual_seed(images)
        size = -(-images // 2)
        drawn = (torch.randperm(images, generator=rng)[:size] for _ in range(self.rounds or images + MORE_ROUNDS))
        return tuple(tuple(sorted(batch.tolist())) for batch in drawn)

    def refuse(self, model: nn.Module, seen: Observation) -> None:
        """Refuse models that are not cut over workers who meet in a linear layer with a bias."""
        super().refuse(model, seen)
        self._meeting(model)

    def run(self, model: nn.Module, seen: Observation, *, rng: torch.Generator, progress: Progress) -> Reconstruction:
        """Solve for loss gradients and inputs of the layer, then descend on the images."""
        name, meeting = self._meeting(model)
        shares = membership_shares([_indices(one) for one in seen.rounds], seen.batch_size)
        biases = torch.stack([one.tensors[f"{name}.bias"] for one in seen.rounds])
        pulls = loss_gradients(shares, biases)
        inputs = layer_inputs(shares, pulls, [one.tensors[f"{name}.weight"] for one in seen.rounds]).float()
        labels = nearest_labels(meeting, inputs, pulls.float()) if seen.labels is None else seen.labels
        start = torch.rand((seen.batch_size, *seen.image.shape), generator=rng)
        return self._descend(model, seen, Matched(meeting, inputs, labels), start, rng, progress)

    def _descend(
        self,
        model: nn.Module,
        seen: Observation,
        found: Matched,
        start: Tensor,
        rng: torch.Generator,
        progress: Progress,
    ) -> Reconstruction:
        """Adam on all images; each step matches the gradient of one batch, and every image's layer input."""
        dummy = start.clone().requires_grad_()
        optimizer = torch.optim.Adam([dummy], lr=self.lr)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, self.steps)
        order = torch.randint(len(seen.rounds), (self.steps,), generator=rng).tolist()
        for step, number in enumerate(order, start=1):
            (dummy.grad,) = torch.autograd.grad(self._objective(model, seen.rounds[number], found, dummy), dummy)
            optimizer.step()
            schedule.step()
            with torch.no_grad():
                dummy.clamp_(0, 1)
            progress(step / self.steps)
        final = [float(self._objective(model, one, found, dummy).detach()) for one in seen.rounds]
        return Reconstruction(dummy.detach(), sum(final) / len(final), found.labels)

    def _objective(self, model: nn.Module, shared: SharedUpdate, found: Matched, images: Tensor) -> Tensor:
        """Squared distance of one batch's gradient, that of all layer inputs, and roughness."""
        chosen = list(_indices(shared))
        own = parameter_gradients(model, images[chosen], found.labels[chosen], create_graph=True)
        target = [shared.tensors[name] for name in parameter_names(model)]
        features = F.mse_loss(met(model, found.meeting, images), found.inputs, reduction="sum")
        return squared_distance(own, target) + self.features * features + self.tv * total_variation(images)

    def _meeting(self, model: nn.Module) -> tuple[str, Vertical]:
        """The part of the model where the workers meet, and its name."""
        for name, part in model.named_modules():
            if isinstance(part, Vertical) and part.first.bias is not None:
                return f"{name}.first" if name else "first", part
        raise ModelError(
            f"Attack '{self.name}' needs a model for vertical federation, whose workers meet in a linear layer with a "
            "bias, and this one has none: use the model vertical, or invgrad where one client holds whole images."
        )


def nearest_labels(meeting: Vertical, inputs: Tensor, pulls: Tensor) -> Tensor:
    """The label of each image with which the layers behind the meeting pull as was found: (N,)."""
    outputs = meeting.first(inputs).detach().requires_grad_()
    logits = meeting.rest(outputs)
    distances = []
    for label in range(logits.shape[1]):
        loss = F.cross_entropy(logits, torch.full((len(inputs),), label), reduction="sum")
        (pull,) = torch.autograd.grad(loss, outputs, retain_graph=True)
        distances.append((pull - pulls).norm(dim=1))
    return torch.stack(distances).argmin(0)


def met(model: nn.Module, meeting: Vertical, images: Tensor) -> Tensor:
    """What the layer where the workers meet is given of images: (N, features)."""
    caught: list[Tensor] = []
    handle = meeting.first.register_forward_pre_hook(lambda module, given: caught.append(given[0]))
    try:
        model(images)
    finally:
        handle.remove()
    return caught[0]


def _indices(shared: SharedUpdate) -> tuple[int, ...]:
    """The images behind one message."""
    return shared.indices or ()
