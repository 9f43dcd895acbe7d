"""The contract of inversion attacks: an author writes ``run``, the base class checks what goes in and out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, ClassVar, Literal, Self, final

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from glasshouse import checks, devices
from glasshouse.attacks.targets import mean_gradient
from glasshouse.errors import AttackError, CapabilityError
from glasshouse.functional.gradients import parameter_names
from glasshouse.models.batchnorm import batchnorm_mode
from glasshouse.registry import Registry, all_settings
from glasshouse.types import Batches, Capability, Observation, Progress, Reconstruction, no_progress

#: What an auditor can do so that the attacker has what it needs.
REMEDIES = {
    Capability.PUBLIC_IMAGES: "Say what it may learn from (--public SPEC)",
    Capability.LABELS: "Give it the labels (--labels given)",
}

#: What becomes of the labels: taken as given or read off the gradient, always read, optimised along, or not used.
LabelUse = Literal["given or recovered", "recovered", "optimised", "unused"]

#: Names of settings and their values.
Grid = tuple[tuple[str, tuple[Any, ...]], ...]


class InversionAttack(ABC):
    """Finds images that explain what the attacker observed.

    ``version`` counts changes of the algorithm that change its results; studies recompute when it moves.
    """

    name: ClassVar[str]
    paper: ClassVar[str]
    adversary: ClassVar[str] = "honest-but-curious server"
    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.GRADIENT})
    label_use: ClassVar[LabelUse] = "given or recovered"
    takes_updates: ClassVar[bool] = False  # whether a weight difference after local steps will do for a gradient
    takes_some_layers: ClassVar[bool] = False  # whether it can work where only some layers are shared
    grid: ClassVar[Grid] = ()  # the settings that tuning searches, in this order, and the values worth trying
    together: ClassVar[int] = 1  # how many images it likes to work on at once
    follows_device: ClassVar[bool] = False  # whether it may run on a GPU: what it makes lies where the model does
    by_engine: ClassVar[bool] = False  # whether it matches gradients by the engine, which counts its memory
    version: ClassVar[int] = 1

    @final
    def __call__(
        self, model: nn.Module, seen: Observation, *, rng: torch.Generator, progress: Progress = no_progress
    ) -> Reconstruction:
        """Check what is needed, run the attack, check what came out."""
        return self.attack_all(model, [seen], rngs=[rng], progress=progress)[0]

    @final
    def attack_all(
        self,
        model: nn.Module,
        seen: Sequence[Observation],
        *,
        rngs: Sequence[torch.Generator],
        progress: Progress = no_progress,
    ) -> list[Reconstruction]:
        """Attack several observations of one model, alike in shape and batch-norm mode, each with a generator."""
        with devices.placed(model, follows=self.follows_device) as device:
            there = [one.to(device) for one in seen]
            for one in there:
                self.refuse(model, one)
            # the only attention kernel on CPU whose gradient can be differentiated again
            with batchnorm_mode(model, seen[0].batchnorm), sdpa_kernel(SDPBackend.MATH):
                made = self.run_all(model, there, rngs=rngs, progress=progress)
            found = [one.to(devices.CPU) for one in made]
        for one, result in zip(seen, found, strict=True):
            checks.reconstruction(self.name, result.images, one.image, one.batch_size)
        return found

    @property
    def at_once(self) -> int:
        """How many reconstructions of one image it works on at the same time, and so keeps in memory."""
        return 1

    @property
    def labels_used(self) -> LabelUse:
        """What becomes of the labels at these settings."""
        return self.label_use

    @property
    def uses(self) -> frozenset[Capability]:
        """What it takes if the attacker has it, at these settings: what it needs, and what it could do without."""
        return self.needs

    def tunable(self) -> Self:
        """The same attack in a form whose settings can be changed one by one."""
        return self

    def refuse(self, model: nn.Module, seen: Observation) -> None:
        """Raise before any work where this attack cannot work; subclasses add their own reasons."""
        held = set(seen.offers)
        if self.takes_updates and all(one.learning_rate for one in seen.rounds) and Capability.UPDATE in held:
            held.add(Capability.GRADIENT)
        missing = self.needs - held
        if Capability.GRADIENT in missing and Capability.UPDATE in held:
            raise CapabilityError(
                f"Attack '{self.name}' needs the gradient itself, and what is shared is a weight update after local "
                f"steps: leave --local-lr out, or use an attack that takes updates ({' or '.join(updatable())})."
            )
        if missing:
            ways = [REMEDIES[one] for one in sorted(missing) if one in REMEDIES]
            raise CapabilityError(
                f"Attack '{self.name}' needs {', '.join(sorted(missing))}, which this attacker does not have: "
                f"it has {', '.join(sorted(seen.offers)) or 'nothing'}. "
                f"{' and '.join(ways)}{', or choose' if ways else 'Choose'} another attack."
            )
        unseen = self.reads(model, seen) - {name for one in seen.rounds for name in one.tensors}
        if unseen and Capability.GRADIENT in self.needs:
            raise CapabilityError(
                f"Attack '{self.name}' needs the gradient of {min(unseen)}, which is not shared here: "
                "use invgrad, which matches what there is."
            )

    def reads(self, model: nn.Module, seen: Observation) -> set[str]:
        """The parameters whose gradients it cannot do without: all, unless it says otherwise."""
        return set() if self.takes_some_layers else set(parameter_names(model))

    def batches(self, images: int) -> Batches | None:
        """Which of a client's images each message is about, where the attacker calls them up and so knows it.

        None, as by default, is one message about all of them, whose order nobody knows.
        """
        return None

    @abstractmethod
    def run(self, model: nn.Module, seen: Observation, *, rng: torch.Generator, progress: Progress) -> Reconstruction:
        """Return ``seen.batch_size`` images in [0, 1]; the model is in the victim's batch-norm mode."""

    def run_all(
        self, model: nn.Module, seen: Sequence[Observation], *, rngs: Sequence[torch.Generator], progress: Progress
    ) -> list[Reconstruction]:
        """Run on several observations; an attack that can work on them together overrides this."""
        found = []
        for number, (one, rng) in enumerate(zip(seen, rngs, strict=True)):
            steps = partial(part_of, progress, number, len(seen))
            found.append(self.run(model, one, rng=rng, progress=steps))
        return found


def part_of(progress: Progress, number: int, parts: int, share: float) -> None:
    """Report the progress of one of several equal parts."""
    progress((number + share) / parts)


attacks: Registry[InversionAttack] = Registry("attack", "glasshouse.attacks")


def updatable() -> list[str]:
    """Names of the attacks that take a weight update for a gradient."""
    return [name for name in attacks.names() if attacks.get(name).takes_updates]


def with_steps(attack: InversionAttack, steps: int | None) -> InversionAttack:
    """The same attack with another number of steps, where it counts steps."""
    settings = all_settings(attack)
    if steps is None or "steps" not in settings:
        return attack
    return type(attack)(**{**settings, "steps": steps})


def target_gradients(model: nn.Module, seen: Observation) -> list[Tensor]:
    """The shared gradient in the order of the model's parameters."""
    shared = mean_gradient(seen)
    return [shared[name] for name in parameter_names(model)]


def best(attack: str, tries: Iterable[Reconstruction]) -> Reconstruction:
    """The try with the lowest objective of the attacker's own; tries that diverged do not count."""
    usable = [one for one in tries if finite(one)]
    if not usable:
        raise AttackError(
            f"Attack '{attack}' diverged in every restart: try more restarts, another seed or other settings."
        )
    return min(usable, key=lambda one: one.objective)


def finite(found: Reconstruction) -> bool:
    """Whether an attempt did not diverge to NaN or infinity."""
    return bool(found.images.isfinite().all()) and found.objective < float("inf")
