"""Carry a study of federations out: train each, test it on clean and on protected images, ask it about its members."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from torch import nn

from glasshouse import data
from glasshouse.errors import OutOfTimeError, StudyError
from glasshouse.federated.records import Ledger, Round, named
from glasshouse.federated.run import federate
from glasshouse.files import write_atomic
from glasshouse.store import Store
from glasshouse.studies.audit import Running, owned
from glasshouse.studies.executors import Executor, Inline, Unfinished
from glasshouse.studies.federations.asked import ENOUGH, Asked
from glasshouse.studies.federations.plan import Federations
from glasshouse.studies.federations.results import FOLDER, gathered, save
from glasshouse.studies.federations.shadows import Shadowed
from glasshouse.studies.federations.targets import Target, targets_of
from glasshouse.studies.reading import read_plan, to_toml
from glasshouse.studies.runner import Summary, one_by_one, singly, work_off
from glasshouse.studies.study import PLAN_FILE, refuse_foreign
from glasshouse.types import JSON, Progress, finite_or_none

SHADOWS = "shadows"  # the folder of shadow models
ASKED = {"accuracy", "watched", "membership"}


def carry_out(
    plan: Federations, directory: Path, running: Running, *, root: Path | None = None, download: bool = False
) -> tuple[JSON, Summary]:
    """Train and measure every federation that is not measured yet, and write down what is known by then."""
    refuse_foreign(directory)
    if download:
        for name in dict.fromkeys(setup.dataset for setup in plan.setups()):
            data.load(name, root=root, download=True)
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
    """Measure what is not measured, one federation after another: each spreads its clients over cores or a cluster.

    Of a federation that an earlier version measured, only what that did not ask is asked.
    """
    known = {record.key: record.outcome for record in store.targets() if record.state == "done"}
    deadline = running.deadline()
    return work_off(
        singly(targets),
        {key for key, outcome in known.items() if outcome.keys() >= ASKED},
        Ground(directory, root, known, deadline, running.workers, running.executor()),
        Inline(),
        keep=one_by_one(lambda target, outcome: store.finish_target(target.key(), outcome)),
        fail=store.fail_target,
        progress=running.training_progress,
        deadline=deadline,
    )


@dataclass
class Ground:
    """Where federations are trained and measured: in the directory of their study, on this machine.

    ``known`` is what was measured of them before, by their keys; ``workers`` clients train at once, on the cluster of
    the ``executor`` where it has one.
    """

    directory: Path
    root: Path | None
    known: Mapping[str, JSON]
    deadline: float
    workers: int
    executor: Executor
    module: nn.Module | None = None

    def packed(self) -> Ground:
        """The same ground: it goes nowhere."""
        return self

    def perform(self, targets: Sequence[Target], progress: Progress) -> list[JSON | Unfinished]:
        """Measure one federation after another."""
        return [self.measured(target, progress) for target in targets]

    def measured(self, target: Target, progress: Progress) -> JSON | Unfinished:
        """Train a federation, or go on with it, and ask it all that the plan asks and was not answered before."""
        plan, folder = target.federation, self.directory / FOLDER / target.folder
        models = 1 + target.shadow_count
        tell = partial(_tell, progress, plan.rounds * models, Ledger(folder))
        try:
            with self.executor.connected():  # for each anew: Flower ends the connection that it was given
                result = federate(plan, folder, root=self.root, cores=self.workers, tell=tell, deadline=self.deadline)
        except OutOfTimeError:
            return Unfinished()
        asked, last = Asked.of(plan, folder, self.root), len(result.rounds)
        questions: dict[str, Callable[[], JSON]] = {
            "accuracy": lambda: asked.accuracy(last),
            "watched": lambda: {str(number): asked.accuracy(number, ENOUGH) for number in target.rounds},
            "membership": lambda: {str(one): asked.membership(one, target.membership) for one in target.rounds},
        }
        if target.shadowed:
            shadowed = Shadowed.of(asked, target.shadowed, self.directory / SHADOWS, self.root)
            if not shadowed.train(self.deadline, lambda share: progress((1 + share * (models - 1)) / models)):
                return Unfinished()
            questions["shadowed"] = lambda: shadowed.membership(last)
        before = self.known.get(target.key(), {})
        return {
            "parameters": result.parameters,
            "promise": result.promise,
            "seconds": sum(one.seconds for one in result.rounds),
            "bytes": sum(one.bytes_sent for one in result.rounds),
            "faults": [f"round {one.number + 1}, {line}" for one in result.rounds for line in named(one.faults)],
            "curve": [finite_or_none(one.accuracy) for one in result.rounds],
            **{name: before[name] if name in before else ask() for name, ask in questions.items()},
        }


def _tell(progress: Progress, total: int, ledger: Ledger, facts: Round) -> None:
    """Tell of a round, and forget the updates before it: global models are measured, and updates fill disks."""
    ledger.forget_clients(before=facts.number)
    progress((facts.number + 1) / total)
