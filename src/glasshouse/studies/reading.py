"""Reading the plan of a study that somebody may have edited: all that it names is built once, before any work."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from glasshouse import attacks, data, defenses, membership, metrics, models, plans
from glasshouse.errors import StudyError, about
from glasshouse.models import own
from glasshouse.studies.audit import refuse_training_defense
from glasshouse.studies.federations.plan import Federations
from glasshouse.studies.grid.plan import NAME, SCHEMA, Grid, meant_for
from glasshouse.studies.grid.targets import refuse_idle
from glasshouse.studies.study import PLAN_FILE, RESULT_FILE

AnyPlan = Grid | Federations

#: What builds, or refuses, one entry of a list of SPECs.
Builder = Callable[[str], object]


def _dataset(text: str) -> None:
    """Refuse a data set that nobody knows; its files are looked for later."""
    name = text.partition(":")[0]
    if name in data.datasets.names():
        data.datasets.create(text)
    elif not (text.endswith(".npz") or "/" in text or Path(text).is_dir()):
        data.datasets.get(name)


def _model(text: str) -> None:
    if own.is_own(text):
        raise StudyError(f"'{text}' is a factory of your own, but a study trains models by SPEC only: give one.")
    models.models.create(text)


def _attack(text: str) -> None:
    attacks.create(meant_for(text)[1])


def _defense(text: str) -> None:
    refuse_training_defense(text, defenses.create(text))


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of study: its plan, and what builds the entries of its lists."""

    plan: type[AnyPlan]
    builders: Mapping[str, Builder]


KINDS = {
    NAME: Kind(
        Grid,
        {
            "datasets": _dataset,
            "models": _model,
            "recipes": refuse_idle,
            "attacks": _attack,
            "defenses": _defense,
            "metrics": metrics.create,
        },
    ),
    "federations": Kind(
        Federations,
        {"datasets": _dataset, "models": _model, "defenses": defenses.create, "membership": membership.create},
    ),
}


def to_toml(plan: AnyPlan) -> str:
    """A plan as commented TOML that says which kind it is."""
    (name,) = (name for name, kind in KINDS.items() if kind.plan is type(plan))
    return plans.to_toml(plan, schema=SCHEMA, name=name)


def read_plan(directory: Path) -> AnyPlan:
    """The plan of a study's directory; what is wrong with it is said with file and line."""
    return read_written(directory).plan


def read_written(directory: Path) -> plans.Written[AnyPlan]:
    """The same with its text, for errors that only the work itself finds."""
    file = directory / PLAN_FILE
    if not file.is_file():
        if directory.is_file():
            raise StudyError(f"{directory} is a file: give the directory that it lies in, {directory.parent}.")
        raise StudyError(f"{directory} holds no {PLAN_FILE}: write one with 'glasshouse study new {directory}'.")
    if (directory / RESULT_FILE).exists():
        raise StudyError(f"{directory} is the directory of an audit: see 'glasshouse report {directory}'.")
    kind = KINDS[plans.kind_of(file, KINDS, NAME)]
    written = plans.read(file, kind.plan, schema=SCHEMA)
    for name, build in kind.builders.items():
        for text in getattr(written.plan, name):
            with written.located(), about(name, text):
                build(text)
    return written


def read_grid(directory: Path) -> Grid:
    """The plan of a grid study; other kinds have no reconstructions to look at."""
    plan = read_plan(directory)
    if not isinstance(plan, Grid):
        raise StudyError(f"{directory} is a study of federations, without reconstructions: see 'study report'.")
    return plan
