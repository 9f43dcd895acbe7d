"""Carry a study of federations out: train each, test it on clean and on protected images, ask it about its members."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from glasshouse.errors import GlasshouseError, StudyError
from glasshouse.federated.run import federate
from glasshouse.files import write_atomic
from glasshouse.store import Store
from glasshouse.studies.audit import Running, owned
from glasshouse.studies.federations.asked import ENOUGH, Asked
from glasshouse.studies.federations.plan import Federations
from glasshouse.studies.federations.results import FOLDER, gathered, save
from glasshouse.studies.federations.shadows import Shadowed
from glasshouse.studies.federations.targets import Target, targets_of
from glasshouse.studies.reading import read_plan, to_toml
from glasshouse.studies.runner import Summary
from glasshouse.studies.study import PLAN_FILE, refuse_foreign
from glasshouse.types import JSON, Progress, finite_or_none, no_progress

SHADOWS = "shadows"  # the folder of shadow models
ASKED = {"accuracy", "watched", "membership"}


def carry_out(
    plan: Federations, directory: Path, running: Running, *, root: Path | None = None
) -> tuple[JSON, Summary]:
    """Train and measure every federation that is not measured yet, and write down what is known by then."""
    refuse_foreign(directory)
    with owned(directory, running) as location:
        _write_plan(plan, directory)
        location.save()
        location.mend()
        store = Store(location.database)
        try:
            targets = targets_of(plan, root)
            store.add_targets((target.key(), target.described()) for target in targets)
            try:
                summary = _train(targets, directory, store, running, root)
            finally:  # also of a run that was interrupted
                found = gathered(plan, targets, store.targets())
                save(directory, found)
            return found, summary
        finally:
            store.close()


def _write_plan(plan: Federations, directory: Path) -> None:
    """Write the plan where it is new; the comments of one that is there may be a user's."""
    before = read_plan(directory) if (directory / PLAN_FILE).exists() else None
    if before is not None and not isinstance(before, Federations):
        raise StudyError(f"{directory} belongs to a study of another kind (see its {PLAN_FILE}): use another one.")
    if before != plan:
        write_atomic(directory / PLAN_FILE, to_toml(plan).encode())


def _train(targets: list[Target], directory: Path, store: Store, running: Running, root: Path | None) -> Summary:
    """Measure what is not measured; no further federation or shadow begins at the deadline.

    Of a federation that an earlier version measured, only what that did not ask is asked.
    """
    deadline = running.deadline()
    known = {record.key: record.outcome for record in store.targets() if record.state == "done"}
    found = done = failed = 0
    for number, target in enumerate(targets):
        before = known.get(target.key(), {})
        progress = partial(_tell, running, number, len(targets))
        if before.keys() >= ASKED:
            found += 1
        elif time.monotonic() < deadline:
            try:
                outcome = measured(target, directory, root, before=before, deadline=deadline, progress=progress)
                if outcome is not None:
                    store.finish_target(target.key(), outcome)
                    known[target.key()] = outcome  # which two ways to write a data set may share
                    done += 1
            except GlasshouseError as error:
                store.fail_target(target.key(), str(error))
                failed += 1
        progress(1)
    return Summary(len(targets), found, done, failed)


def _tell(running: Running, number: int, total: int, share: float) -> None:
    running.training_progress(number + share, total)


def measured(
    target: Target,
    directory: Path,
    root: Path | None,
    *,
    before: JSON,
    deadline: float = float("inf"),
    progress: Progress = no_progress,
) -> JSON | None:
    """Train a federation, or go on with it, and ask it all that the plan asks and was not answered before.

    Nothing where the time was over before all its shadows were trained.
    """
    plan, folder = target.federation, directory / FOLDER / target.folder
    models = 1 + target.shadow_count
    result = federate(plan, folder, root=root, tell=lambda one: progress((one.number + 1) / plan.rounds / models))
    asked, last = Asked.of(plan, folder, root), len(result.rounds)
    questions: dict[str, Callable[[], JSON]] = {
        "accuracy": lambda: asked.accuracy(last),
        "watched": lambda: {str(number): asked.accuracy(number, ENOUGH) for number in target.rounds},
        "membership": lambda: {str(number): asked.membership(number, target.membership) for number in target.rounds},
    }
    if target.shadowed:
        shadowed = Shadowed.of(asked, target.shadowed, directory / SHADOWS, root)
        if not shadowed.train(deadline, lambda share: progress((1 + share * (models - 1)) / models)):
            return None
        questions["shadowed"] = lambda: shadowed.membership(last)
    return {
        "parameters": result.parameters,
        "promise": result.promise,
        "seconds": sum(one.seconds for one in result.rounds),
        "bytes": sum(one.bytes_sent for one in result.rounds),
        "curve": [finite_or_none(one.accuracy) for one in result.rounds],
        **{name: before[name] if name in before else ask() for name, ask in questions.items()},
    }
