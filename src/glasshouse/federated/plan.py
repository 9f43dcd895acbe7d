"""What a federation is to do: a frozen plan, kept as ``study.toml``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from glasshouse import checks, defenses, plans
from glasshouse.errors import SettingError
from glasshouse.federated.adversaries import Adversary, adversaries
from glasshouse.federated.splits import splits
from glasshouse.registry import setting
from glasshouse.training import Recipe

SCHEMA = 1
FEWEST_SECURE = 3  # of two clients each knows the other's part of the sum
MOST_SECURE = 1000  # more would overflow the 32-bit sum of 22-bit numbers


@dataclass(frozen=True, kw_only=True)
class Federation:
    """The settings of a federation; two runs with equal plans continue one another."""

    dataset: str = setting("digits", "data that clients train on: SPEC, FILE.npz, directory, or a protected directory")
    test: str | None = setting(None, "data that the global model is tested on; none: the test images of the data")
    size: int | None = setting(None, "resize images to this many pixels")
    images: int | None = setting(None, "train on so many images in all; none: on all")
    test_images: int | None = setting(None, "test on so many images; none: on all")
    model: str = setting("mlp", "model: SPEC or FILE.py:FACTORY")
    clients: int = setting(4, "how many clients")
    rounds: int = setting(10, "how many rounds")
    local_epochs: int = setting(1, "passes of a client over its images in each round")
    batch: int = setting(16, "images per step of a client")
    lr: float = setting(0.1, "learning rate of the clients")
    momentum: float = setting(0.0, "Nesterov momentum of the clients, which begins anew in every round")
    augment: bool = setting(False, "clients shift and mirror images")
    split: str = setting("iid", "how images are dealt out to clients")
    defense: str = setting("none", "defense SPEC of every client, or a chain of them")
    secure_aggregation: bool = setting(False, "the server sees only the sum of the updates (SecAgg+)")
    secure_range: float = setting(8.0, "largest change of a weight that secure aggregation carries")
    adversary: str | None = setting(None, "SPEC of a client who does not play fair; none: all do")
    timeout: float = setting(600.0, "seconds that the server waits for clients in a round")
    seed: int = setting(0, "seed of everything random but the masks of secure aggregation")

    def __post_init__(self) -> None:
        checks.at_least("clients", self.clients, 1)
        checks.at_least("rounds", self.rounds, 1)
        checks.between("seed", self.seed, 0, 2**62)
        checks.between("momentum", self.momentum, 0, 1)
        checks.at_least("timeout", self.timeout, 1)
        checks.at_least("secure_range", self.secure_range, 1e-6)
        for name in ("images", "test_images"):
            if getattr(self, name) is not None:
                checks.at_least(name, getattr(self, name), 1)
        if self.secure_aggregation and not FEWEST_SECURE <= self.clients <= MOST_SECURE:
            raise SettingError(
                f"{self.clients} clients cannot aggregate securely: the sum hides each among {FEWEST_SECURE} "
                f"to {MOST_SECURE}."
            )
        _ = self.recipe
        splits.create(self.split)
        defenses.create(self.defense)
        if self.malicious is not None:
            checks.between("client", self.malicious.client, 0, self.clients - 1)

    @property
    def malicious(self) -> Adversary | None:
        """The client who does not play fair, if there is one."""
        return None if self.adversary is None else adversaries.create(self.adversary)

    def adversary_at(self, client: int) -> Adversary | None:
        """The adversary, if that is who a client is."""
        malicious = self.malicious
        return malicious if malicious is not None and malicious.client == client else None

    @property
    def recipe(self) -> Recipe:
        """How a client trains in one round."""
        return Recipe(
            epochs=self.local_epochs,
            batch=self.batch,
            lr=self.lr,
            momentum=self.momentum,
            weight_decay=0.0,
            augment=self.augment,
        )

    @property
    def epochs(self) -> int:
        """How often a client passes over its images in all."""
        return self.rounds * self.local_epochs

    def class_names(self, found: tuple[str, ...]) -> tuple[str, ...]:
        """The classes of the federation, given those of its data: an adversary may have asked for more."""
        malicious = self.malicious
        if malicious is None:
            return found
        malicious.refuse(found)
        return found + malicious.extra_classes

    def hindrance(self, other: Federation) -> str:
        """Why this plan may not go on in the other's directory, or nothing: only patience may differ."""
        return plans.difference(self, other, plans.names(self, but="timeout"))


def to_toml(plan: Federation) -> str:
    """The plan as commented TOML."""
    return plans.to_toml(plan, schema=SCHEMA)


def from_toml(path: Path) -> Federation:
    """Read a plan back; anything that is not one is refused with the reason."""
    return plans.from_toml(path, Federation, schema=SCHEMA)
