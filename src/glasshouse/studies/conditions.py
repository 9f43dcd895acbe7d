"""Under which conditions a client shares: how long it trained, how often and how much of it the server sees."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from fnmatch import fnmatchcase

from glasshouse import checks
from glasshouse.errors import SettingError
from glasshouse.functional.local import local_steps
from glasshouse.training import Gradients
from glasshouse.types import JSON, BatchNorm

STATISTICS = ("running", "batch", "none")
HIGHEST_RATE = 100.0  # clients train at 0.001 to 0.1; weights that move a hundred times their gradient are no training


@dataclass(frozen=True, slots=True)
class Conditions:
    """One gradient of all layers, seen once, unless said otherwise.

    With ``local_lr`` the client shares how far its weights moved in ``local_epochs`` passes over its images,
    ``local_batch`` of them at a time. ``observations`` counts messages about the same images and weights, ``layers``
    are patterns of the parameters that are shared, ``statistics`` says what the attacker knows of batch norm.
    """

    local_lr: float | None = None
    local_epochs: int = 1
    local_batch: int | None = None
    observations: int = 1
    layers: tuple[str, ...] = ()
    statistics: str = "running"

    def __post_init__(self) -> None:
        checks.at_least("local_epochs", self.local_epochs, 1)
        checks.at_least("observations", self.observations, 1)
        checks.one_of("statistics", self.statistics, STATISTICS)
        if self.local_lr is not None:
            checks.between("local_lr", self.local_lr, 1e-9, HIGHEST_RATE)
        elif self.local_epochs > 1 or self.local_batch is not None:
            raise SettingError("A client that trains locally needs a learning rate: add --local-lr, for example 0.01.")
        if self.local_batch is not None:
            checks.at_least("local_batch", self.local_batch, 1)

    def changed(self) -> JSON:
        """The settings that are not as usual."""
        values = ((field.name, getattr(self, field.name), field.default) for field in dataclasses.fields(self))
        return {
            name: list(value) if isinstance(value, tuple) else value for name, value, usual in values if value != usual
        }

    def steps(self, images: int) -> int:
        """How many local steps lie behind a message about so many images."""
        return local_steps(images, self.local_batch, self.local_epochs)

    def shared(self, gradients: Gradients) -> Gradients:
        """The part of a gradient that leaves the client."""
        if not self.layers:
            return gradients
        kept = {name: one for name, one in gradients.items() if any(fnmatchcase(name, own) for own in self.layers)}
        if not kept:
            raise SettingError(
                f"--layers {' '.join(self.layers)} fits no parameter of this model: it has {', '.join(gradients)}."
            )
        return kept

    def known_statistics(self, batchnorm: BatchNorm) -> str:
        """What the attacker knows of the numbers that batch norm used, in words for the threat card."""
        exact = "batch statistics known"
        if batchnorm == "eval":
            return f"running and {exact}" if self.statistics == "batch" else "running statistics known"
        unknown = {"running": "running statistics known, batch statistics unknown", "none": "no statistics known"}
        return unknown.get(self.statistics, f"running and {exact}")


USUAL = Conditions()
