"""A grid study is opened: what can be refused is, then plan, images and the list of its networks are on disk."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import nn

from glasshouse import attacks, defenses, models
from glasshouse.errors import CapabilityError, ModelError, SettingError, StudyError, about
from glasshouse.files import sweep, write_atomic
from glasshouse.models.own import build, inspect
from glasshouse.registry import complete_spec
from glasshouse.store import Album, Location, Store
from glasshouse.studies.audit import check_plan
from glasshouse.studies.grid.meetings import Unfit, Victims, meetings, told
from glasshouse.studies.grid.plan import Grid, from_toml, meant_for, to_toml
from glasshouse.studies.grid.targets import Lessons, School, Target, augments, described, guard_of, targets_of
from glasshouse.studies.materials import Materials, from_dataset
from glasshouse.studies.memory import refuse_too_large
from glasshouse.studies.study import PLAN_FILE, Victim, refuse_foreign
from glasshouse.studies.subjects import Subject, refuse_other_images
from glasshouse.studies.suitable import modes, refuse_lone_values

log = logging.getLogger(__name__)

#: What networks learn from, and what is attacked, by data set.
Known = tuple[Mapping[str, Lessons], Mapping[str, Materials]]


@dataclass(frozen=True, slots=True, eq=False)
class Opened:
    """A grid study on disk, all its networks planned: what can be refused has been.

    ``unfit`` says which attacks cannot work on some of its networks, and why.
    """

    directory: Path
    grid: Grid
    store: Store
    album: Album
    school: School
    targets: tuple[Target, ...]
    materials: Mapping[str, Materials]
    subjects: tuple[Subject, ...]
    unfit: tuple[Unfit, ...]
    root: Path | None


def open_grid(grid: Grid, location: Location, *, root: Path | None = None, download: bool = False) -> Opened:
    """Make or continue the study of a plan at a place that the caller owns; nothing is trained yet."""
    directory, album = location.directory, location.album
    refuse_foreign(directory)
    if (directory / PLAN_FILE).exists() and (other := grid.hindrance(from_toml(directory / PLAN_FILE))):
        raise StudyError(
            f"{directory} belongs to a study of other images (its {PLAN_FILE} has {other}): use another directory."
        )
    for model in grid.models:
        check_plan(grid.audit(grid.datasets[0], model))
    lessons, materials = gathered(grid, root=root, download=download)
    targets = tuple(targets_of(grid, lessons))
    subjects: list[Subject] = []
    for name, own in materials.items():
        subjects.append(Subject.of(name, own.spec, own, grid.images * len(subjects)))
    unfit = refuse_useless(grid, lessons, materials)
    for line in told(grid, unfit):
        log.warning("Left out: %s", line)
    refuse_other_images(location, subjects, growing=False)
    sweep(directory, directory / "models", directory / "report")
    if not (directory / PLAN_FILE).exists() or from_toml(directory / PLAN_FILE) != grid:  # its comments may be a user's
        write_atomic(directory / PLAN_FILE, to_toml(grid).encode())
    location.settle()
    for subject in subjects:
        subject.save(album)
    store = Store(location.database)
    store.add_images(record for subject in subjects for record in subject.records)
    store.add_targets(described(targets))
    return Opened(directory, grid, store, album, School(lessons), targets, materials, tuple(subjects), unfit, root)


def gathered(grid: Grid, *, root: Path | None, download: bool) -> Known:
    """What networks learn from and what is attacked, for each data set."""
    lessons: dict[str, Lessons] = {}
    materials: dict[str, Materials] = {}
    for name in grid.datasets:
        with about("datasets", name):
            own = materials[name] = from_dataset(
                name, grid.images, grid.seed, size=None, root=root, download=download, public=grid.public
            )
            lessons[name] = Lessons.of(name, grid.training_images, grid.seed, own.images, root=root, download=download)
    return lessons, materials


def refuse_useless(grid: Grid, lessons: Mapping[str, Lessons], materials: Mapping[str, Materials]) -> tuple[Unfit, ...]:
    """Refuse what cannot work, on fresh networks, for trained ones are of the same shape; say what fits some only."""
    _refuse_aliases(grid)
    fitting: set[str] = set()
    refused: dict[str, CapabilityError | ModelError] = {}
    unfit: list[Unfit] = []
    for name, model in itertools.product(grid.datasets, grid.models):
        plan, own = grid.audit(name, model), materials[name]
        with about("models", model):
            network = build(model, lessons[name].spec, seed=0).eval()
            inspect(network, lessons[name].spec)
            met = meetings(grid, plan, own.spec, _fresh(grid, model, network), own.public_count)
            for one in {id(one.network): one for one in met}.values():
                audited = [(one.network, mode) for mode in modes(plan, one.network)]
                refuse_lone_values(plan, own.spec, audited)
                if plan.memory is not None:
                    refuse_too_large(one.suitable.attacks, audited, own.spec, plan.batch, plan.memory)
                fitting.update(attack for attack, _ in one.suitable.attacks)
        unfit += [
            Unfit(name, model, one.victim.round, defense, attack, str(error))
            for one in met
            for defense in one.plan.defenses
            for attack, error in one.suitable.refused.items()
        ]
        refused |= {attack: error for one in met for attack, error in one.suitable.refused.items()}
    for attack, error in refused.items():
        if attack not in fitting:
            row = next(row for row in grid.attacks if meant_for(row)[1] == attack)
            with about("attacks", row):
                raise error
    return tuple(unfit)


def _refuse_aliases(grid: Grid) -> None:
    """Refuse two ways to write one thing: it is done once, so that the second would wait for its results forever."""
    lists: list[tuple[str, Sequence[str], Callable[[str], object]]] = [
        ("models", grid.models, lambda text: models.models.create(text).meaning),
        ("recipes", grid.recipes, lambda text: (augments(text), guard_of(text).complete_spec)),
        ("defenses", grid.defenses, lambda text: defenses.create(text).complete_spec),
        *(("attacks", grid.attacks_on(one), lambda text: complete_spec(attacks.create(text))) for one in grid.models),
    ]
    for name, texts, meaning in lists:
        first: dict[object, str] = {}
        for text in texts:
            other = first.setdefault(meaning(text), text)
            if other != text:
                with about(name, text):
                    raise SettingError(f"{name} has '{other}' and '{text}', which mean the same: write one of them.")


def _fresh(grid: Grid, model: str, network: nn.Module) -> Victims:
    """A fresh network in the place of those that each recipe will train, named by it."""
    return {
        recipes: [
            Victim(recipe, guard_of(recipe).on_model(network), "")
            for recipe in recipes
            if recipe in grid.recipes_of(model)
        ]
        for recipes, _ in grid.pairings()
    }
