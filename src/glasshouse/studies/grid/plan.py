"""What a grid study is to do: a frozen plan, kept as ``study.toml``."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from glasshouse import checks, plans
from glasshouse.errors import SettingError
from glasshouse.registry import setting
from glasshouse.studies.plan import DEFAULT_METRICS
from glasshouse.studies.plan import Plan as AuditPlan
from glasshouse.types import BatchNorm

SCHEMA = 1
NAME = "grid"
FRESH = 0  # the checkpoint before any training
SEPARATOR = "|"  # between a model and what is meant for it alone
PROBES = ("membership", "linkage", "cost")
#: Lists that must name something.
NEEDED = (
    "datasets",
    "models",
    "recipes",
    "checkpoints",
    "seeds",
    "attacks",
    "defenses",
    "metrics",
    "batchnorm",
)


@dataclass(frozen=True, kw_only=True)
class Grid:
    """The settings of a study; every combination of the lists is trained and attacked but for those it is without."""

    title: str = setting("study", "what tables and the report call the study")
    datasets: tuple[str, ...] = setting(("digits",), "data set SPECs, FILE.npz or directories")
    models: tuple[str, ...] = setting(("lenet",), "model SPECs")
    recipes: tuple[str, ...] = setting(
        ("none",), "how models are trained: defense SPECs, 'crop/' first to shift and mirror"
    )
    without: tuple[str, ...] = setting((), "'MODEL | RECIPE' that are not trained, because they would take too long")
    training_images: int | None = setting(None, "train on so many images of each data set; all of them where not set")
    epochs: int = setting(15, "passes over the training images")
    checkpoints: tuple[int, ...] = setting((15,), "after how many epochs a model is attacked; 0 is before any")
    learned: float | None = setting(
        None,
        "attack only networks that are right so many times as often as chance, or, of few classes, by half of what "
        "chance leaves; all where not set",
    )
    lr: float = setting(0.1, "first learning rate")
    training_batch: int = setting(128, "images per training step")
    seeds: tuple[int, ...] = setting((0,), "seeds of training; each is a model of its own")
    images: int = setting(8, "how many test images of each data set are attacked")
    attacks: tuple[str, ...] = setting(("invgrad",), "attack SPECs; 'MODEL | SPEC' on one of the models alone")
    defenses: tuple[str, ...] = setting(("none",), "SPECs of defenses of what is shared")
    paired: bool = setting(
        False, "whether each recipe is attacked behind the defense at its own place in the list only"
    )
    metrics: tuple[str, ...] = setting(DEFAULT_METRICS, "metric SPECs")
    batch: int = setting(1, "images behind one shared gradient")
    batchnorm: tuple[BatchNorm, ...] = setting(("eval",), "batch-norm modes of the victim")
    labels: str = setting("given", "whether the attacker is given the labels or recovers them")
    public: str | None = setting(None, "public images that an attacker may learn from: SPEC, FILE.npz or directory")
    tune: bool = setting(
        False, "whether each attack is tuned for each model and defense, on images that nobody attacks or trains on"
    )
    practice: int = setting(
        6, "images of a data set that tuning tries each candidate on; no network was trained on them"
    )
    probes: tuple[str, ...] = setting((), "what is measured beside attacks: membership, linkage, cost")
    memory: float | None = setting(None, "gigabytes that a worker may use to work on several images at once")
    seed: int = setting(0, "seed of the choice of images, of defenses and of attacks")

    def __post_init__(self) -> None:
        checks.at_least("epochs", self.epochs, 1)
        for name in NEEDED:
            if not getattr(self, name):
                raise SettingError(f"There are no {name}: name at least one.")
            self._refuse_repeated(name)
        self._refuse_repeated("without")
        if self.paired and len(self.recipes) != len(self.defenses):
            raise SettingError(
                f"paired wants as many recipes as defenses, but there are {len(self.recipes)} and {len(self.defenses)}."
            )
        for probe in self.probes:
            checks.one_of("probes", probe, PROBES)
        for mode in self.batchnorm:
            checks.one_of("batchnorm", mode, get_args(BatchNorm))
        checks.at_least("practice", self.practice, 1)
        if self.learned is not None:
            checks.at_least("learned", self.learned, 0)
        checks.at_least("lr", self.lr, 1e-9)
        checks.at_least("training_batch", self.training_batch, 2)
        for seed in self.seeds:
            checks.between("seeds", seed, 0, 2**62)
        for epoch in self.checkpoints:
            checks.between("checkpoints", epoch, FRESH, self.epochs)
        if self.training_images is not None:
            checks.at_least("training_images", self.training_images, 2)
        self._refuse_attacks()
        self._refuse_exceptions()
        for model in self.models:
            self.audit(self.datasets[0], model)

    def _refuse_repeated(self, name: str) -> None:
        """A list that names something twice is refused."""
        values = getattr(self, name)
        if len(set(values)) < len(values):
            raise SettingError(f"{name} names {_twice(values)} twice: write it once.")

    def _refuse_attacks(self) -> None:
        """Attacks on models that are not in the plan would never run, and models without attacks never be attacked."""
        for row in self.attacks:
            model, _ = meant_for(row)
            if model is not None and model not in self.models:
                raise SettingError(
                    f"attacks has '{row}': write one of the models, {', '.join(self.models)}, before '|'."
                )
        for model in self.models:
            found = self.attacks_on(model)
            if not found:
                raise SettingError(f"There are no attacks on {model}: name at least one, or take the model out.")
            if len(set(found)) < len(found):
                raise SettingError(f"attacks names {_twice(found)} twice for {model}: write it once.")

    def _refuse_exceptions(self) -> None:
        """What is not in the plan cannot be left out of it, and of every model something must be left."""
        for row in self.without:
            model, recipe = meant_for(row)
            if model not in self.models or recipe not in self.recipes:
                raise SettingError(
                    f"without has '{row}': write one of the models, {', '.join(self.models)}, then '|', then one of "
                    f"the recipes, {', '.join(self.recipes)}."
                )
        for model in self.models:
            if not self.recipes_of(model):
                raise SettingError(f"without leaves no recipe to train {model} by: take the model out of the plan.")

    def recipes_of(self, model: str) -> tuple[str, ...]:
        """The recipes that one of the models is trained by, in order."""
        return tuple(recipe for recipe in self.recipes if (model, recipe) not in map(meant_for, self.without))

    def pairs_of(self, model: str) -> list[tuple[str, str]]:
        """By which recipe and behind which defense networks of one of the models are attacked."""
        return [
            pair
            for recipes, behind in self.pairings()
            for pair in itertools.product(recipes, behind)
            if pair[0] in self.recipes_of(model)
        ]

    def attacks_on(self, model: str) -> tuple[str, ...]:
        """The attack SPECs that one of the models meets, in order."""
        return tuple(attack for whose, attack in map(meant_for, self.attacks) if whose in (None, model))

    def audit(self, dataset: str, model: str) -> AuditPlan:
        """What is done to one model on one data set, as an audit would."""
        return AuditPlan(
            dataset=dataset,
            images=self.images,
            model=model,
            attacks=self.attacks_on(model),
            defenses=self.defenses,
            metrics=self.metrics,
            batch=self.batch,
            batchnorm=self.batchnorm,
            labels=self.labels,
            public=self.public,
            seed=self.seed,
            tune=self.tune,
            memory=self.memory,
        )

    def pairings(self) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
        """Which recipes are attacked behind which defenses."""
        if not self.paired:
            return [(self.recipes, self.defenses)]
        return [((recipe,), (defense,)) for recipe, defense in zip(self.recipes, self.defenses, strict=True)]

    def hindrance(self, other: Grid) -> str:
        """Why this plan may not go on in the other's directory, or nothing: what was trained and attacked stays of use.

        Lists may change, because every result is kept under a key of its own; which images are attacked may not.
        """
        return plans.difference(self, other, ("datasets", "images", "seed"))


def to_toml(grid: Grid) -> str:
    """The plan as commented TOML."""
    return plans.to_toml(grid, schema=SCHEMA, name=NAME)


def from_toml(path: Path) -> Grid:
    """Read a plan back; anything that is not one is refused with the reason."""
    return plans.from_toml(path, Grid, schema=SCHEMA)


def meant_for(row: str) -> tuple[str | None, str]:
    """The model that an attack or a recipe is meant for, or None where that is all of them, and which it is."""
    model, bar, spec = row.rpartition(SEPARATOR)
    return model.strip() if bar else None, spec.strip()


def _twice(values: tuple[object, ...]) -> object:
    return next(value for place, value in enumerate(values) if value in values[:place])
