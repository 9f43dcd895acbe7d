"""Carry a grid study out: train its targets, then attack them; each part is kept as soon as it is done."""

from __future__ import annotations

import logging
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from glasshouse.attacks.base import InversionAttack
from glasshouse.studies.audit import Running, attack, owned
from glasshouse.studies.bench import Bench
from glasshouse.studies.calibration import Public, public_images
from glasshouse.studies.case import Case
from glasshouse.studies.choices import Choices
from glasshouse.studies.grid.kept import keep, lost
from glasshouse.studies.grid.meetings import Meeting, meetings, met_cases
from glasshouse.studies.grid.opening import Opened, open_grid
from glasshouse.studies.grid.plan import Grid
from glasshouse.studies.grid.probing import laboratory, probe, trained
from glasshouse.studies.grid.results import GridResult, collect
from glasshouse.studies.grid.targets import weights_file
from glasshouse.studies.learned import enough_for
from glasshouse.studies.memory import images_at_once
from glasshouse.studies.networks import trained_network
from glasshouse.studies.plan import Plan
from glasshouse.studies.public import save_public
from glasshouse.studies.runner import Summary, one_by_one, singly, work_off
from glasshouse.studies.scoring import measures, score
from glasshouse.studies.study import (
    Study,
    Victim,
    architecture_of,
    public_images_for,
    refuse_foreign,
)
from glasshouse.studies.subjects import Subject
from glasshouse.studies.suitable import audited_networks
from glasshouse.studies.table import Table
from glasshouse.studies.tuning import Untuned, tuned_cases

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class Done:
    """What a run did: networks trained and probed, cases attacked once all are there, and all that is known by now."""

    training: Summary
    probing: Summary
    attacking: Summary
    result: GridResult


def carry_out(
    grid: Grid, directory: Path, running: Running, *, root: Path | None = None, download: bool = False
) -> Done:
    """Train what is not trained yet, then attack what is not attacked yet, and write down what is known by then."""
    refuse_foreign(directory)
    with owned(directory, running) as location:
        opened = open_grid(grid, location, root=root, download=download)
        try:
            deadline = running.deadline()
            try:
                training = train(opened, running, deadline)
                probing = measure(opened, running, deadline)
                # what is left to train is left because the time is over, so nothing is attacked either
                study = attackable(opened, running, deadline)
                attacking = attack(study, running, deadline)
            except KeyboardInterrupt:
                write_down(opened, attackable(opened, running, deadline=0), running)
                raise
            return Done(training, probing, attacking, write_down(opened, study, running))
        finally:
            opened.store.close()


def write_down(opened: Opened, study: Study, running: Running) -> GridResult:
    """Score what is finished and write ``study.json``."""
    tables = []
    for number, subject in enumerate(opened.subjects):
        known = measures(subject, opened.grid.metrics)

        def scored(done: float, total: int, number: int = number) -> None:
            running.scoring_progress(number + done / total, len(opened.subjects))

        score(study, subject, known, scored)
        running.scoring_progress(number + 1, len(opened.subjects))
        tables.append(Table.of(study, subject, known))
    store = opened.store
    result = collect(
        opened.grid, opened.directory, tables, opened.targets, store.targets(), store.probes(), opened.unfit
    )
    result.save()
    return result


def train(opened: Opened, running: Running, deadline: float) -> Summary:
    """Train every target that is not trained, or whose weights are lost, and keep it as soon as it is."""
    opened.store.reset_targets(lost(opened.directory, opened.store.targets()))
    return work_off(
        singly(opened.targets),
        {record.key for record in opened.store.targets() if record.state == "done"},
        opened.school,
        running.executor(),
        keep=one_by_one(partial(keep, opened.directory, opened.store)),
        fail=opened.store.fail_target,
        progress=running.training_progress,
        deadline=deadline,
    )


def measure(opened: Opened, running: Running, deadline: float) -> Summary:
    """Measure what the plan asks for beside attacks, of the networks that are trained by now."""
    if not opened.grid.probes:
        opened.store.add_probes(())
        return Summary(0, 0, 0, 0)
    found = laboratory(opened.grid, opened.directory, opened.school.lessons, opened.materials, opened.root)
    networks = trained(opened.targets, opened.store.targets())
    return probe(opened.grid, opened.store, found, networks, running, deadline)


def attackable(opened: Opened, running: Running, deadline: float) -> Study:
    """All cases of the targets that could be trained, ready to be worked on."""
    choices = Choices.of(opened.directory)
    bench = Bench(
        opened.directory,
        opened.album,
        tuple(record for subject in opened.subjects for record in subject.records),
        {subject.dataset: subject.image for subject in opened.subjects},
    )
    parts = [_part(opened, subject, model, choices) for subject in opened.subjects for model in opened.grid.models]
    progress, executor = running.tuning_progress, running.executor()
    cases: dict[str, Case] = {}
    for case in tuned_cases(parts, bench, choices, progress=progress, executor=executor, deadline=deadline):
        cases.setdefault(case.key(), case)
    opened.store.add_cases((key, case.described()) for key, case in cases.items())
    return Study(opened.directory, opened.store, opened.album, tuple(cases.values()), bench, opened.subjects, choices)


def _part(opened: Opened, subject: Subject, model: str, choices: Choices) -> Untuned:
    """Expand the plan for one model on one data set."""
    plan = opened.grid.audit(subject.dataset, model)
    grid, held = opened.grid, opened.materials[subject.dataset].public_count
    victims = {recipes: list(_victims(opened, subject, model, recipes)) for recipes, _ in grid.pairings()}
    met = meetings(grid, plan, subject.image, victims, held)
    _tell_surprises(opened, subject.dataset, model, met)
    if plan.memory is not None and any(victims.values()):
        audited = audited_networks(plan, [victim.model for own in victims.values() for victim in own])
        fitting = images_at_once(audited, subject.image, plan.memory)
        most = min(fitting, choices.together.get("images", fitting))
        choices.together = {"gigabytes": plan.memory, "images": most}
        choices.save()
    public = _public(opened, subject, [attack for one in met for attack in one.suitable.attacks])
    expanded = met_cases(met, subject.records, architecture_of(plan, None), public)
    return Untuned(expanded, _practice(opened, subject, plan) if plan.tune else None)


def _tell_surprises(opened: Opened, dataset: str, model: str, met: Sequence[Meeting]) -> None:
    """Say which attacks a trained network refuses that fresh ones did not."""
    known = {(one.defense, one.attack) for one in opened.unfit if (one.dataset, one.model) == (dataset, model)}
    for one in met:
        for name, error in one.suitable.refused.items():
            if not known.issuperset((defense, name) for defense in one.plan.defenses):
                log.warning("Left out: %s on %s, %s: %s", name, model, one.victim.round, error)


def _practice(opened: Opened, subject: Subject, plan: Plan) -> Public:
    """Images of the data set itself that nobody attacks and no network was trained on: others would tune worse.

    What the plan names as public is for attacks that learn from images, and may be of another kind.
    """
    own = opened.materials[subject.dataset]
    count = max(opened.grid.practice, plan.batch)
    trained = opened.school.lessons[subject.dataset].training()[0]
    return public_images(subject.dataset, own, count, plan.seed + 1, root=opened.root, trained=trained)


def _victims(opened: Opened, subject: Subject, model: str, recipes: Container[str]) -> Iterator[Victim]:
    """Every checkpoint of every network of a model trained by recipes; what is fresh is there once for a seed.

    A fresh network is that of the first recipe, which may not be trained yet: another may begin with another. Where the
    plan says how much a network must have learned, those that have not are nobody's targets; the log counts them.
    """
    times = opened.grid.learned
    least = 0.0 if times is None else enough_for(subject.image.classes, times)
    facts = {record.key: record.outcome for record in opened.store.targets() if record.state == "done"}
    rounds: set[str] = set()
    idle = 0
    for target in opened.targets:
        if (target.dataset, target.model) != (subject.dataset, model) or target.recipe not in recipes:
            continue
        for epoch in target.checkpoints:
            if target.round(epoch) in rounds:
                continue
            rounds.add(target.round(epoch))
            if target.key() not in facts:
                continue
            if facts[target.key()]["accuracy"][str(epoch)] < least:
                idle += 1
                continue
            name = facts[target.key()]["weights"][str(epoch)]
            network = trained_network(model, subject.image, weights_file(opened.directory, name))
            yield Victim(target.round(epoch), network.eval(), name)
    if idle:
        log.warning(
            "Left out: %d of %d checkpoints of %s on %s, which are right on less than %.1f%% of test images.",
            *(idle, len(rounds), model, subject.dataset, 100 * least),
        )


def _public(opened: Opened, subject: Subject, attacks: list[tuple[str, InversionAttack]]) -> str:
    """The name of the public images that attacks on a data set may learn from; empty where none does."""
    found = public_images_for(opened.materials[subject.dataset], attacks, opened.grid.seed)
    return "" if found is None else save_public(opened.directory, found)
