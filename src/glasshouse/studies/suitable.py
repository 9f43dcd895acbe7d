"""Which attacks of a plan can work on the networks that it audits, and what in it changes nothing."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from glasshouse import attacks, defenses
from glasshouse.attacks.base import InversionAttack, with_steps
from glasshouse.errors import CapabilityError, ModelError
from glasshouse.functional.local import batches_in_order
from glasshouse.models.batchnorm import batchnorm_layers, batchnorm_mode
from glasshouse.registry import to_spec
from glasshouse.studies.bench import blank_observation
from glasshouse.studies.plan import DEFAULT_ATTACKS, Plan
from glasshouse.types import BatchNorm, Capability, ImageSpec

log = logging.getLogger(__name__)

#: Networks as they are attacked, with the mode of their batch norm.
Audited = Sequence[tuple[nn.Module, BatchNorm]]


@dataclass(frozen=True, slots=True)
class Suitable:
    """The attacks that can work, each with the name that tables give it, and why others cannot."""

    attacks: list[tuple[str, InversionAttack]]
    refused: Mapping[str, CapabilityError | ModelError]

    @property
    def left_out(self) -> tuple[str, ...]:
        """One line for each attack that cannot work."""
        return tuple(f"{name}: {error}" for name, error in self.refused.items())


def suitable_attacks(plan: Plan, image: ImageSpec, audited: Audited, *, public: int | None = None) -> Suitable:
    """The plan's attacks; one that cannot attack these models is refused, or left out if nobody asked for it.

    ``public`` counts the images that the attacker may learn from; None where it has none.
    """
    found = fitting_attacks(plan, image, audited, public=public)
    for name, error in found.refused.items():
        if plan.attacks != DEFAULT_ATTACKS or not found.attacks:
            raise error
        log.warning("%s is left out: %s", name, error)
    return found


def fitting_attacks(plan: Plan, image: ImageSpec, audited: Audited, *, public: int | None = None) -> Suitable:
    """Those of the plan's attacks that can attack these models; why the others cannot is left to the caller to tell."""
    found = []
    refused: dict[str, CapabilityError | ModelError] = {}
    for text in plan.attacks:
        name, attack = _attack(text, plan.steps)
        try:
            _refuse(attack, plan, image, audited, public)
        except (CapabilityError, ModelError) as error:
            refused[name] = error
        else:
            found.append((name, attack))
    return Suitable(found, refused)


def _refuse(attack: InversionAttack, plan: Plan, image: ImageSpec, audited: Audited, public: int | None) -> None:
    """Let an attack refuse networks before any work."""
    for model, mode in audited:
        seen = blank_observation(
            model,
            image,
            plan.batch,
            mode,
            plan.labels,
            plan.conditions,
            batches=attack.batches(plan.batch),
            public=public,
        )
        attack.refuse(model, seen)


def audited_networks(plan: Plan, networks: Iterable[nn.Module]) -> list[tuple[nn.Module, BatchNorm]]:
    """The networks as they are and as the plan's defenses change them, each in every mode in which it is audited."""
    changing = [one for one in map(defenses.create, plan.defenses) if one.changes_model]
    found = [one for model in networks for one in (model, *(defense.on_model(model) for defense in changing))]
    return [(model, mode) for model in found for mode in modes(plan, model)]


def modes(plan: Plan, model: nn.Module) -> tuple[BatchNorm, ...]:
    """The batch-norm modes in which a network is audited; one without batch norm has no two."""
    return plan.batchnorm if batchnorm_layers(model) else ("eval",)


def refuse_lone_values(plan: Plan, image: ImageSpec, audited: Audited) -> None:
    """Refuse batch norm in train mode where a layer sees one value per channel: it has no variance."""

    def refuse(layer: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        if inputs[0].numel() == inputs[0].shape[1]:
            raise ModelError(
                f"Batch norm in train mode has no variance to divide by: of {size} image(s) of "
                f"{image.height}x{image.width} pixels some layer of {plan.model} sees one value per channel. Use a "
                f"larger --batch that leaves none of the {plan.images} images alone, larger images (--size), or "
                "--bn eval."
            )

    trained = [model for model, mode in audited if mode == "train"]
    for model, size in itertools.product(trained, _batch_sizes(plan)):
        with torch.no_grad(), batchnorm_mode(model, "train"), ExitStack() as hooks:
            for layer in batchnorm_layers(model):
                hooks.enter_context(layer.register_forward_pre_hook(refuse))
            model(torch.full((size, *image.shape), 0.5))


def _batch_sizes(plan: Plan) -> list[int]:
    """How many images a network sees at once: a batch, the last of what is left, parts of both in local training."""
    messages = {plan.batch, plan.images % plan.batch or plan.batch}
    parts = (
        (count, part)
        for count in messages
        for part in batches_in_order(count, plan.local_batch, plan.conditions.steps(count))
    )
    return sorted({len(range(count)[part]) for count, part in parts}, reverse=True)


def tell_idle_settings(plan: Plan, audited: Audited, found: Suitable) -> None:
    """Say which settings of a plan change nothing, so that nobody reads their effect into the results."""
    if not any(batchnorm_layers(model) for model, _ in audited):
        idle = {
            "--bn train": plan.batchnorm == ("train",),
            f"--statistics {plan.statistics}": plan.statistics != "running",
        }
        for option, given in idle.items():
            if given:
                log.warning("%s changes nothing: %s has no batch norm.", option, plan.model)
    if plan.public is not None and not any(_learns(attack, plan) for _, attack in found.attacks):
        named = ", ".join(name for name, _ in found.attacks)
        log.warning("--public %s changes nothing: %s learns from no images; learned does.", plan.public, named)


def _learns(attack: InversionAttack, plan: Plan) -> bool:
    """Whether public images change what an attack does, at its settings or in the search for them."""
    return Capability.PUBLIC_IMAGES in attack.uses or (plan.tune and bool(attack.grid))


def _attack(text: str, steps: int | None) -> tuple[str, InversionAttack]:
    """An attack and how tables call it: as written, unless its steps were set from outside."""
    attack = attacks.create(text)
    changed = with_steps(attack, steps)
    return (text if changed == attack else to_spec(changed)), changed
