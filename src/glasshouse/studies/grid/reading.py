"""Reading the plan of a grid study that somebody may have edited: all that it names is built once, before any work."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from glasshouse import attacks, data, defenses, metrics, models, plans
from glasshouse.errors import GlasshouseError, StudyError
from glasshouse.models import own
from glasshouse.studies.audit import refuse_training_defense
from glasshouse.studies.grid.plan import SCHEMA, Grid
from glasshouse.studies.grid.targets import refuse_idle
from glasshouse.studies.study import PLAN_FILE


def _dataset(text: str) -> None:
    """Refuse a data set that nobody knows; its files are looked for later."""
    name = text.partition(":")[0]
    if not (text.endswith(".npz") or "/" in text or Path(text).is_dir()):
        data.datasets.get(name)
    if name in data.datasets.names():
        data.datasets.create(text)


def _model(text: str) -> None:
    if own.is_own(text):
        raise StudyError(f"'{text}' is a factory of your own, but a study trains models by SPEC only: give one.")
    models.models.create(text)


def _defense(text: str) -> None:
    refuse_training_defense(text, defenses.create(text))


#: What builds, or refuses, one entry of each list of SPECs.
BUILDERS: dict[str, Callable[[str], object]] = {
    "datasets": _dataset,
    "models": _model,
    "recipes": refuse_idle,
    "attacks": attacks.create,
    "defenses": _defense,
    "metrics": metrics.create,
}


def read_plan(directory: Path) -> Grid:
    """The plan of a study's directory; what is wrong with it is said with file and line."""
    file = directory / PLAN_FILE
    if not file.is_file():
        raise StudyError(f"{directory} holds no {PLAN_FILE}: write one with 'glasshouse study new {directory}'.")
    written = plans.read(file, Grid, schema=SCHEMA)
    for name, build in BUILDERS.items():
        for text in getattr(written.plan, name):
            try:
                build(text)
            except GlasshouseError as error:
                raise written.error(error, name, text) from error
    return written.plan
