"""Carry a study of federations out: train each, test it on clean and on protected images, ask it about its members."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import nn

from glasshouse.errors import StudyError
from glasshouse.federated.run import federate
from glasshouse.files import write_atomic
from glasshouse.store import Store
from glasshouse.studies.audit import Running, owned
from glasshouse.studies.executors import Inline
from glasshouse.studies.federations.asked import Asked
from glasshouse.studies.federations.plan import Federations
from glasshouse.studies.federations.results import FOLDER, gathered, save
from glasshouse.studies.federations.targets import Target, targets_of
from glasshouse.studies.reading import read_plan, to_toml
from glasshouse.studies.runner import Summary, singly, work_off
from glasshouse.studies.study import PLAN_FILE, refuse_foreign
from glasshouse.types import JSON, Progress, finite_or_none


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
    """Measure what is not measured, one federation after another: each spreads its clients over the cores itself."""
    return work_off(
        singly(targets),
        {record.key for record in store.targets() if record.state == "done"},
        Ground(directory, root),
        Inline(),
        keep=lambda target, outcome: store.finish_target(target.key(), outcome),
        fail=store.fail_target,
        progress=running.training_progress,
        deadline=running.deadline(),
    )


@dataclass
class Ground:
    """Where federations are trained and measured: in the directory of their study, on this machine."""

    directory: Path
    root: Path | None
    module: nn.Module | None = None

    def packed(self) -> Ground:
        """The same ground: it goes nowhere."""
        return self

    def perform(self, targets: Sequence[Target], progress: Progress) -> list[JSON]:
        """Measure one federation after another."""
        return [measured(target, self.directory / FOLDER / target.folder, self.root) for target in targets]


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
