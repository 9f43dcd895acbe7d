"""What an audit is to do: a frozen plan, kept as ``study.toml``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from glasshouse import checks, plans
from glasshouse.errors import SettingError
from glasshouse.registry import setting
from glasshouse.studies.conditions import Conditions
from glasshouse.types import BatchNorm

SCHEMA = 1
DEFAULT_ATTACKS = ("idlg:steps=60,restarts=2", "invgrad:tv=0.01")
DEFAULT_DEFENSES = ("none", "gaussian:sigma=0.01", "prune:percent=70")
DEFAULT_METRICS = ("mse", "psnr", "ssim", "lpips", "semsim")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The settings of an audit; two runs with equal plans continue one another."""

    dataset: str = setting("photos", "data set: SPEC, FILE.npz or directory")
    size: int | None = setting(None, "resize images to this many pixels")
    images: int = setting(3, "how many images are attacked")
    model: str = setting("lenet", "model: SPEC or FILE.py:FACTORY")
    weights: str | None = setting(None, "weights of a trained model, audited beside the fresh one")
    fresh: bool = setting(True, "whether the fresh model is audited beside the trained one")
    attacks: tuple[str, ...] = setting(DEFAULT_ATTACKS, "attack SPECs")
    defenses: tuple[str, ...] = setting(DEFAULT_DEFENSES, "defense SPECs")
    metrics: tuple[str, ...] = setting(DEFAULT_METRICS, "metric SPECs")
    steps: int | None = setting(None, "steps of every attack that counts steps")
    batch: int = setting(1, "images behind one shared gradient")
    batchnorm: tuple[BatchNorm, ...] = setting(("eval", "train"), "batch-norm modes of the victim")
    public: str | None = setting(None, "public images that an attacker may learn from: SPEC, FILE.npz or directory")
    labels: str = setting("recovered", "whether the attacker is given the labels or recovers them")
    seed: int = setting(0, "seed of everything random")
    local_lr: float | None = setting(None, "learning rate of a client that trains locally and shares how it moved")
    local_epochs: int = setting(1, "passes over its images before a client shares")
    local_batch: int | None = setting(None, "images per local step, in order; all of them where not set")
    observations: int = setting(1, "messages about the same images and weights that the attacker sees")
    layers: tuple[str, ...] = setting((), "patterns of the parameters that are shared; all of them where empty")
    statistics: str = setting("running", "what the attacker knows of batch norm: running, batch or none")
    tune: bool = setting(False, "whether each attack is tuned for each model and defense on public images")
    memory: float | None = setting(None, "gigabytes that a worker may use to work on several images at once")

    @property
    def conditions(self) -> Conditions:
        """Under which conditions a client shares."""
        return Conditions(
            local_lr=self.local_lr,
            local_epochs=self.local_epochs,
            local_batch=self.local_batch,
            observations=self.observations,
            layers=self.layers,
            statistics=self.statistics,
        )

    def __post_init__(self) -> None:
        checks.at_least("images", self.images, 1)
        checks.at_least("batch", self.batch, 1)
        if self.batch > self.images:
            raise SettingError(
                f"batch={self.batch} is more than the {self.images} images that are attacked: use a smaller --batch, "
                "or more --images."
            )
        checks.one_of("labels", self.labels, ("given", "recovered"))
        checks.between("seed", self.seed, 0, 2**62)
        if self.steps is not None:
            checks.at_least("steps", self.steps, 1)
        for mode in self.batchnorm:
            checks.one_of("bn", mode, ("eval", "train"))
        if not self.fresh and self.weights is None:
            raise SettingError(
                "Without --weights there is only the fresh model: give weights, or leave --no-fresh out."
            )
        if self.local_batch is not None:
            checks.at_least("local_batch", self.local_batch, 1)
            if self.local_batch > self.batch:
                raise SettingError(
                    f"local_batch={self.local_batch} is more than the {self.batch} behind one update: use a smaller "
                    "--local-batch, or a larger --batch."
                )
        if self.memory is not None:
            checks.at_least("memory", self.memory, 0.01)
        _ = self.conditions  # what cannot be is refused here

    def hindrance(self, other: Plan) -> str:
        """Why this plan may not go on in the other's directory, or nothing: all but the metrics must be equal."""
        return plans.difference(self, other, plans.names(self, but="metrics"))


def to_toml(plan: Plan) -> str:
    """The plan as commented TOML."""
    return plans.to_toml(plan, schema=SCHEMA)


def from_toml(path: Path) -> Plan:
    """Read a plan back; anything that is not one is refused with the reason."""
    return plans.from_toml(path, Plan, schema=SCHEMA)
