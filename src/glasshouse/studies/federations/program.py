"""Carry a study of federations out: train each, test it on clean and on protected images, ask it about its members."""

from __future__ import annotations

import time
from pathlib import Path

from glasshouse.errors import GlasshouseError, StudyError
from glasshouse.federated.run import federate
from glasshouse.files import write_atomic
from glasshouse.store import Store
from glasshouse.studies.audit import Running, owned
from glasshouse.studies.federations.asked import Asked
from glasshouse.studies.federations.plan import Federations
from glasshouse.studies.federations.results import FOLDER, gathered, save
from glasshouse.studies.federations.targets import Target, targets_of
from glasshouse.studies.reading import read_plan, to_toml
from glasshouse.studies.runner import Summary
from glasshouse.studies.study import PLAN_FILE, refuse_foreign
from glasshouse.types import JSON, finite_or_none


def carry_out(
    plan: Federations, directory: Path, running: Running, *, root: Path | None = None
) -> tuple[JSON, Summary]:
    """Train and measure every federation that is not measured yet, and write down what is known by then."""
    refuse_foreign(directory)
    with owned(directory, running) as location:
        _write_plan(plan, directory)
        location.settle()
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
    """Measure what is not measured; no further federation begins at the deadline."""
    deadline = running.deadline()
    finished = {record.key for record in store.targets() if record.state == "done"}
    found = done = failed = 0
    for number, target in enumerate(targets):
        if target.key() in finished:
            found += 1
        elif time.monotonic() < deadline:
            try:
                store.finish_target(target.key(), measured(target, directory / FOLDER / target.folder, root))
                finished.add(target.key())  # which two ways to write a data set may share
                done += 1
            except GlasshouseError as error:
                store.fail_target(target.key(), str(error))
                failed += 1
        running.training_progress(number + 1, len(targets))
    return Summary(len(targets), found, done, failed)


def measured(target: Target, folder: Path, root: Path | None) -> JSON:
    """Train a federation, or go on with it, and ask it all that the plan asks."""
    result = federate(target.federation, folder, root=root)
    asked = Asked.of(target.federation, folder, root)
    return {
        "parameters": result.parameters,
        "promise": result.promise,
        "seconds": sum(one.seconds for one in result.rounds),
        "bytes": sum(one.bytes_sent for one in result.rounds),
        "curve": [finite_or_none(one.accuracy) for one in result.rounds],
        "accuracy": asked.accuracy(len(result.rounds)),
        "membership": {str(number): asked.membership(number, target.membership) for number in target.rounds},
    }
