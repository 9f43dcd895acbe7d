"""What an audit is to do: a frozen plan, kept as ``study.toml``."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

from glasshouse import checks, plans
from glasshouse.registry import setting
from glasshouse.types import BatchNorm

SCHEMA = 1
DEFAULT_ATTACKS = ("idlg:steps=60,restarts=2", "invgrad:tv=0.01")
DEFAULT_DEFENSES = ("none", "gaussian:sigma=0.01", "prune:percent=70")
DEFAULT_METRICS = ("mse", "psnr", "ssim", "lpips")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The settings of an audit; two runs with equal plans continue one another."""

    dataset: str = setting("photos", "data set: SPEC, FILE.npz or directory")
    size: int | None = setting(None, "resize images to this many pixels")
    images: int = setting(3, "how many images are attacked")
    model: str = setting("lenet", "model: SPEC or FILE.py:FACTORY")
    weights: str | None = setting(None, "weights of a trained model, audited beside the fresh one")
    attacks: tuple[str, ...] = setting(DEFAULT_ATTACKS, "attack SPECs")
    defenses: tuple[str, ...] = setting(DEFAULT_DEFENSES, "defense SPECs")
    metrics: tuple[str, ...] = setting(DEFAULT_METRICS, "metric SPECs")
    steps: int | None = setting(None, "steps of every attack that counts steps")
    batch: int = setting(1, "images behind one shared gradient")
    batchnorm: tuple[BatchNorm, ...] = setting(("eval", "train"), "batch-norm modes of the victim")
    public: str | None = setting(None, "public images that an attacker may learn from: SPEC, FILE.npz or directory")
    labels: str = setting("recovered", "whether the attacker is given the labels or recovers them")
    seed: int = setting(0, "seed of everything random")

    def __post_init__(self) -> None:
        checks.at_least("images", self.images, 1)
        checks.between("batch", self.batch, 1, self.images)
        checks.one_of("labels", self.labels, ("given", "recovered"))
        checks.between("seed", self.seed, 0, 2**62)
        if self.steps is not None:
            checks.at_least("steps", self.steps, 1)
        for mode in self.batchnorm:
            checks.one_of("bn", mode, ("eval", "train"))

    def continues(self, other: Plan) -> bool:
        """Whether this plan may go on in the other's directory: all but the metrics must be equal."""
        return dataclasses.replace(self, metrics=()) == dataclasses.replace(other, metrics=())


def to_toml(plan: Plan) -> str:
    """The plan as commented TOML."""
    return plans.to_toml(plan, schema=SCHEMA)


def from_toml(path: Path) -> Plan:
    """Read a plan back; anything that is not one is refused with the reason."""
    return plans.from_toml(path, Plan, schema=SCHEMA)
