"""What a plan will cost: its cases counted, and a few steps of each kind of work timed; nothing is kept."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import nn

from glasshouse import attacks, defenses
from glasshouse.attacks.base import InversionAttack, with_steps
from glasshouse.functional.threads import one_thread
from glasshouse.models import own
from glasshouse.registry import all_settings
from glasshouse.studies.case import Case
from glasshouse.studies.grid.meetings import meetings, met_cases, told
from glasshouse.studies.grid.opening import Known, gathered, refuse_useless
from glasshouse.studies.grid.plan import Grid
from glasshouse.studies.grid.probes import KINDS, Laboratory, Network, Probe
from glasshouse.studies.grid.probing import laboratory
from glasshouse.studies.grid.targets import Lessons, School, Target, guard_of, targets_of
from glasshouse.studies.materials import Materials
from glasshouse.studies.runner import RunProgress
from glasshouse.studies.study import Victim, public_images_for
from glasshouse.studies.subjects import Subject
from glasshouse.studies.tasks import Task, tasks
from glasshouse.studies.tuning import STEP_FACTORS
from glasshouse.studies.victim import share
from glasshouse.types import JSON, no_progress

SAMPLE = 32  # images that a training is timed on
FEW, MORE = 2, 6  # steps that an attack is timed with: the difference is the cost of a step
HOUR = 3600


@dataclass(frozen=True, slots=True)
class Estimate:
    """How much there is to do: networks, cases, probes, hours on one core, and bytes on disk.

    ``left_out`` says which attacks cannot work on some of the networks, and why.
    """

    targets: int
    cases: int
    probes: int
    training_hours: float
    probing_hours: float
    tuning_hours: float
    attacking_hours: float
    disk: int
    workers: int
    left_out: tuple[str, ...]

    @property
    def hours(self) -> float:
        """From beginning to end with these workers."""
        alone = self.training_hours, self.probing_hours, self.tuning_hours, self.attacking_hours
        return sum(alone) / self.workers

    def to_json(self) -> JSON:
        """The estimate as plain JSON."""
        return {**dataclasses.asdict(self), "hours": self.hours}


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """One model on one data set."""

    dataset: str
    model: str
    lessons: Lessons
    materials: Materials
    targets: tuple[Target, ...]


def estimate(grid: Grid, workers: int, *, root: Path | None, download: bool, progress: RunProgress) -> Estimate:
    """Count the cases of a plan and time samples of its work, on one thread as workers have."""
    known = gathered(grid, root=root, download=download)
    parts = list(_parts(grid, *known))
    unfit = refuse_useless(grid, *known)
    training = tuning = attacking = 0.0
    cases = weights = pictures = 0
    with one_thread():
        for number, part in enumerate(parts):
            progress(number, len(parts))
            training += _training(grid, part)
            expanded = _cases(grid, part)
            seconds = _timed(grid, part, expanded)
            attacking += sum(seconds[_kind(case)] for case in expanded)
            tuning += _tuning(grid, expanded, seconds)
            cases += len(expanded)
            weights += sum(len(own.to_weights(_network(part, one))) * len(one.checkpoints) for one in part.targets)
            pictures += (grid.images + sum(len(case.images) for case in expanded)) * math.prod(part.lessons.spec.shape)
        probes = _probes(grid, parts, known, root)
        probing = _probing(probes)
        progress(len(parts), len(parts))
    return Estimate(
        targets=sum(len(part.targets) for part in parts),
        cases=cases,
        probes=len(probes),
        training_hours=training / HOUR,
        probing_hours=probing / HOUR,
        tuning_hours=tuning / HOUR,
        attacking_hours=attacking / HOUR,
        disk=weights + pictures,
        workers=workers,
        left_out=told(grid, unfit),
    )


def _probes(grid: Grid, parts: list[_Part], known: Known, root: Path | None) -> dict[Probe, Laboratory]:
    """The probes of a plan, of networks that are not trained yet, and where they are to be measured."""
    if not grid.probes:
        return {}
    found = laboratory(grid, Path(), *known, root)
    networks = [Network(one, epoch, "") for part in parts for one in part.targets for epoch in one.checkpoints]
    return {probe: found for name in grid.probes for probe in KINDS[name].planned(grid, networks, found)}


def _probing(probes: Mapping[Probe, Laboratory]) -> float:
    """Seconds of all probes; of those that take about as long one is rehearsed."""
    spent: dict[tuple[str, ...], float] = {}
    for probe, found in probes.items():
        if (probe.kind, *probe.costs_as) not in spent:
            spent[probe.kind, *probe.costs_as] = probe.rehearsed(found)
    return sum(spent[probe.kind, *probe.costs_as] for probe in probes)


def _parts(grid: Grid, lessons: Mapping[str, Lessons], materials: Mapping[str, Materials]) -> Iterator[_Part]:
    targets = targets_of(grid, lessons)
    for name in grid.datasets:
        for model in grid.models:
            chosen = tuple(one for one in targets if (one.dataset, one.model) == (name, model))
            yield _Part(name, model, lessons[name], materials[name], chosen)


def _network(part: _Part, target: Target) -> nn.Module:
    return guard_of(target.recipe).on_model(own.build(part.model, part.lessons.spec, seed=0)).eval()


def _training(grid: Grid, part: _Part) -> float:
    """Seconds that all networks of a part take to train: one epoch of a sample by each recipe, the second of two."""
    images, labels = part.lessons.images[:SAMPLE], part.lessons.labels[:SAMPLE]
    school = School({part.dataset: Lessons(part.lessons.spec, images, labels, images[:1], labels[:1])})
    spent: dict[str, float] = {}
    for target in part.targets:
        if target.recipe not in spent:
            sample = replace(target, epochs=1, checkpoints=(1,), batch=min(target.batch, SAMPLE))
            spent[target.recipe] = min(school.seconds(sample) for _ in range(2))
    passes = grid.epochs * len(part.lessons.labels) / len(labels)
    return sum(spent[target.recipe] for target in part.targets) * passes


def _cases(grid: Grid, part: _Part) -> list[Case]:
    """The cases of a part, as they will be but for their weights."""
    plan = grid.audit(part.dataset, part.model)
    subject = Subject.of(part.dataset, part.materials.spec, part.materials)
    victims = {recipes: _victims(part, recipes) for recipes, _ in grid.pairings()}
    met = meetings(grid, plan, part.materials.spec, victims, part.materials.public_count)
    return met_cases(met, subject.records, part.model, "")


def _victims(part: _Part, recipes: Container[str]) -> list[Victim]:
    """Fresh networks in the place of those that recipes will train; what is fresh is there once for a seed."""
    rounds: dict[str, nn.Module] = {}
    for target in part.targets:
        if target.recipe in recipes:
            network = _network(part, target)
            for epoch in target.checkpoints:
                rounds.setdefault(target.round(epoch), network)
    return [Victim(name, network, name) for name, network in rounds.items()]


def _kind(case: Case) -> tuple[str, str]:
    """What cases have in common that take equally long."""
    return case.attack_spec, case.batchnorm


def _timed(grid: Grid, part: _Part, cases: list[Case]) -> Mapping[tuple[str, str], float]:
    """Seconds of one case of each kind, from a few steps of a whole task on a fresh network without a defense."""
    kinds: dict[tuple[str, str], Task] = {}
    for task in tasks(cases):
        kinds.setdefault(_kind(task[0]), task)  # the last one may have fewer images
    return {kind: _seconds(grid, part, task) for kind, task in kinds.items()}


def _seconds(grid: Grid, part: _Part, task: Task) -> float:
    attack = attacks.create(task[0].attack_spec)
    steps: int | None = all_settings(attack).get("steps")
    if steps is None or steps <= MORE:
        return _spent(grid, part, task, attack) / len(task)
    # what a first run prepares once would hide what a step costs
    _, few, more = (_spent(grid, part, task, with_steps(attack, count)) for count in (FEW, FEW, MORE))
    return (few + max(more - few, 0.0) / (MORE - FEW) * (steps - FEW)) / len(task)


def _spent(grid: Grid, part: _Part, task: Task, attack: InversionAttack) -> float:
    """How many seconds of the processor an attack on a task takes: what else the machine does is not counted."""
    network = own.build(part.model, part.lessons.spec, seed=0).eval()
    public = public_images_for(part.materials, [(task[0].attack, attack)], grid.seed)
    rngs = [torch.Generator().manual_seed(number) for number, _ in enumerate(task)]
    seen = [
        share(
            network,
            part.materials.images[list(case.images)],
            part.materials.labels[list(case.images)],
            defenses.create("none"),
            image=part.materials.spec,
            batchnorm=case.batchnorm,
            give_labels=case.labels == "given",
            rng=rng,
            conditions=case.conditions,
            batches=attack.batches(len(case.images)),
            public=public,
        ).seen
        for case, rng in zip(task, rngs, strict=True)
    ]
    began = time.process_time()
    attack.attack_all(network, seen, rngs=rngs, progress=no_progress)
    return time.process_time() - began


def _tuning(grid: Grid, cases: list[Case], seconds: Mapping[tuple[str, str], float]) -> float:
    """Seconds of the search before the attacks: every candidate attacks some public images."""
    if not grid.tune:
        return 0.0
    groups = {(case.weights, case.batchnorm, case.defense, case.attack): case for case in cases}
    return sum(_tries(grid, case) * seconds[_kind(case)] for case in groups.values())


def _tries(grid: Grid, case: Case) -> float:
    """How many cases a search is worth."""
    attack = attacks.create(case.attack_spec).tunable()
    candidates = 1 + sum(len(values) for _, values in attack.grid)
    with_other_steps = sum(STEP_FACTORS) if attack.grid and "steps" in all_settings(attack) else 0.0
    return grid.practice / len(case.images) * (candidates + with_other_steps)
