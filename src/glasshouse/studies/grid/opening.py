"""A grid study is opened: what can be refused is, then plan, images and the list of its networks are on disk."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

from glasshouse import defenses
from glasshouse.defenses import Defense
from glasshouse.errors import CapabilityError, ModelError, StudyError
from glasshouse.files import sweep, write_atomic
from glasshouse.models.own import build, inspect
from glasshouse.store import Album, Location, Store
from glasshouse.studies.audit import check_plan
from glasshouse.studies.grid.plan import Grid, from_toml, to_toml
from glasshouse.studies.grid.targets import Lessons, School, Target, described, guard_of, targets_of
from glasshouse.studies.materials import Materials, from_dataset
from glasshouse.studies.memory import refuse_too_large
from glasshouse.studies.study import PLAN_FILE, refuse_foreign
from glasshouse.studies.subjects import Subject, refuse_other_images
from glasshouse.studies.suitable import fitting_attacks, modes, refuse_lone_values

log = logging.getLogger(__name__)

#: Why an attack cannot work, by data set and by what changes the network.
Reasons = dict[tuple[str, str], CapabilityError | ModelError]


@dataclass(frozen=True, slots=True, eq=False)
class Opened:
    """A grid study on disk, all its networks planned: what can be refused has been.

    ``left_out`` says which attacks cannot work on some of its networks, and why.
    """

    directory: Path
    grid: Grid
    store: Store
    album: Album
    school: School
    targets: tuple[Target, ...]
    materials: Mapping[str, Materials]
    subjects: tuple[Subject, ...]
    left_out: tuple[str, ...]
    root: Path | None


def open_grid(grid: Grid, location: Location, *, root: Path | None = None, download: bool = False) -> Opened:
    """Make or continue the study of a plan at a place that the caller owns; nothing is trained yet."""
    directory, album = location.directory, location.album
    refuse_foreign(directory)
    if (directory / PLAN_FILE).exists() and not grid.continues(from_toml(directory / PLAN_FILE)):
        raise StudyError(
            f"{directory} belongs to a study of other images (see its {PLAN_FILE}): use another directory."
        )
    for model in grid.models:
        check_plan(grid.audit(grid.datasets[0], model))
    materials = {
        name: from_dataset(name, grid.images, grid.seed, size=None, root=root, download=download, public=grid.public)
        for name in grid.datasets
    }
    lessons = {
        name: Lessons.of(name, grid.training_images, grid.seed, own.images, root=root, download=download)
        for name, own in materials.items()
    }
    targets = tuple(targets_of(grid, lessons))
    subjects: list[Subject] = []
    for name, own in materials.items():
        subjects.append(Subject.of(name, own.spec, own, grid.images * len(subjects)))
    left_out = _refuse_useless(grid, lessons, materials)
    refuse_other_images(location, subjects)
    sweep(directory, directory / "models", directory / "report")
    if not (directory / PLAN_FILE).exists() or from_toml(directory / PLAN_FILE) != grid:  # its comments may be a user's
        write_atomic(directory / PLAN_FILE, to_toml(grid).encode())
    location.settle()
    for subject in subjects:
        subject.save(album)
    store = Store(location.database)
    store.add_images(record for subject in subjects for record in subject.records)
    store.add_targets(described(targets))
    return Opened(directory, grid, store, album, School(lessons), targets, materials, tuple(subjects), left_out, root)


def _refuse_useless(grid: Grid, lessons: Mapping[str, Lessons], materials: Mapping[str, Materials]) -> tuple[str, ...]:
    """Refuse what cannot work, on fresh networks, for trained ones are of the same shape; tell what fits some only."""
    fitting: set[str] = set()
    refused: dict[tuple[str, str], Reasons] = {}
    for name, model in itertools.product(grid.datasets, grid.models):
        plan, own = grid.audit(name, model), materials[name]
        network = build(model, lessons[name].spec, seed=0).eval()
        inspect(network, lessons[name].spec)
        for change, guards in _changes(grid).items():
            met = reduce(lambda changed, guard: guard.on_model(changed), guards, network)
            audited = [(met, mode) for mode in modes(plan, met)]
            found = fitting_attacks(plan, own.spec, audited, public=own.public_count)
            refuse_lone_values(plan, own.spec, audited)
            if plan.memory is not None:
                refuse_too_large(found.attacks, audited, own.spec, plan.batch, plan.memory)
            fitting.update(attack for attack, _ in found.attacks)
            for attack, error in found.refused.items():
                refused.setdefault((attack, model), {})[name, change] = error
    for (attack, _), errors in refused.items():
        if attack not in fitting:
            raise next(iter(errors.values()))
    return tuple(_unfit(grid, attack, model, errors) for (attack, model), errors in refused.items())


def _changes(grid: Grid) -> dict[str, tuple[Defense, ...]]:
    """What changes networks before they are attacked, in training and in sharing; without a name where nothing does."""
    found = {}
    for recipes, behind in grid.pairings():
        for recipe, text in itertools.product(recipes, behind):
            guards = {recipe: guard_of(recipe), text: defenses.create(text)}
            changing = {name: guard for name, guard in guards.items() if guard.changes_model}
            found[", ".join(changing)] = tuple(changing.values())
    return found


def _unfit(grid: Grid, attack: str, model: str, errors: Reasons) -> str:
    """Where an attack cannot work, and why: on a model, or only with some data sets or behind some defenses."""
    datasets, changes = (list(dict.fromkeys(key[place] for key in errors)) for place in (0, 1))
    where = model if len(datasets) == len(grid.datasets) else f"{model}, {', '.join(datasets)}"
    if len(changes) < len(_changes(grid)):
        where += f" behind {', '.join(change or 'all that leaves it as it is' for change in changes)}"
    line = f"{attack} on {where}: {next(iter(errors.values()))}"
    log.warning("Left out: %s", line)
    return line
