"""Run what is left of a study; a case finished is a case kept, and so is a network trained and a thing measured."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

from glasshouse.store import Album, ReconstructionRecord, Store
from glasshouse.studies.bench import Bench, Outcome
from glasshouse.studies.case import Case
from glasshouse.studies.executors import Executor, Failure, JobT, ResultT, Unfinished, Workbench
from glasshouse.studies.pictures import opaque_name, save_picture
from glasshouse.studies.tasks import Task, tasks
from glasshouse.types import JSON, finite_or_none

#: Called with how many jobs are done, with fractions of those that run, and how many there are.
RunProgress = Callable[[float, int], None]


def silent(done: float, total: int) -> None:
    """Report progress to nobody."""


@dataclass(frozen=True, slots=True)
class Summary:
    """What a run did: jobs in the plan, found finished, finished now, failed now, and still to do."""

    planned: int
    found: int
    done: int
    failed: int

    @property
    def left(self) -> int:
        """How many jobs another run has to do."""
        return self.planned - self.found - self.done - self.failed

    @property
    def futile(self) -> bool:
        """Whether every job failed."""
        return 0 < self.failed == self.planned


def run(
    cases: Sequence[Case],
    store: Store,
    album: Album,
    bench: Bench,
    *,
    executor: Executor,
    deadline: float = float("inf"),
    most_images: int | None = None,
    progress: RunProgress = silent,
) -> Summary:
    """Work on every case that is not finished, and write each down as soon as it is.

    No further case is begun at the ``deadline``, a reading of ``time.monotonic``. ``most_images`` is how many fit into
    memory at once, where that is bounded.
    """
    states = {record.key: record.state for record in store.cases()}
    return work_off(
        [part for task in tasks(cases, most_images) for part in _left_together(task, states)],
        {case.key() for case in cases if states.get(case.key()) == "done"},
        bench,
        executor,
        keep=lambda finished: keep(finished, store, album),
        fail=store.fail,
        progress=progress,
        deadline=deadline,
    )


def _left_together(task: Task, states: Mapping[str, str]) -> list[Task]:
    """A task, or its cases one by one where some failed: those were tried by themselves, and so they are again."""
    failed_alone = {states.get(case.key()) for case in task} == {"done", "failed"}
    return [(case,) for case in task] if failed_alone else [task]


def singly(jobs: Iterable[JobT]) -> list[tuple[JobT, ...]]:
    """Each job as a task of its own, once: two ways to write a data set may share it."""
    return [(job,) for job in {job.key(): job for job in jobs}.values()]


def work_off(
    planned: Sequence[tuple[JobT, ...]],
    finished: Container[str],
    bench: Workbench[JobT, ResultT],
    executor: Executor,
    *,
    keep: Callable[[Sequence[tuple[JobT, ResultT]]], None],
    fail: Callable[[str, str], None],
    progress: RunProgress,
    deadline: float,
) -> Summary:
    """Work on every task with a job whose key is not ``finished``, and write each down as soon as it is done.

    ``keep`` has all jobs of a task at once: what is computed together is kept together, so that no kill leaves a part
    of it, which would have to be computed again with the rest.
    """
    total = sum(len(task) for task in planned)
    found = sum(job.key() in finished for task in planned for job in task)
    todo = [task for task in planned if any(job.key() not in finished for job in task)]
    done = failed = 0
    shares: dict[str, float] = {}
    over: set[str] = set()

    def watch(key: str, share: float) -> None:
        if key in over:  # a report that comes later than the result
            return
        shares[key] = share
        progress(found + done + failed + sum(shares.values()), total)

    progress(found, total)
    for task, outcomes in executor.work(todo, bench, watch=watch, deadline=deadline):
        over.add(task[0].key())
        shares.pop(task[0].key(), None)
        kept = []
        for job, outcome in zip(task, outcomes, strict=True):
            if job.key() in finished or isinstance(outcome, Unfinished):
                continue  # done again for the others' sake, or left to the next run
            if isinstance(outcome, Failure):
                fail(job.key(), outcome.reason)
                failed += 1
            else:
                kept.append((job, outcome))
        if kept:
            keep(kept)
            done += len(kept)
        progress(found + done + failed + sum(shares.values()), total)
    return Summary(total, found, done, failed)


def one_by_one(keep: Callable[[JobT, ResultT], None]) -> Callable[[Sequence[tuple[JobT, ResultT]]], None]:
    """Keep every job by itself, where tasks are of one job."""

    def kept(finished: Sequence[tuple[JobT, ResultT]]) -> None:
        for job, outcome in finished:
            keep(job, outcome)

    return kept


def keep(finished: Sequence[tuple[Case, Outcome]], store: Store, album: Album) -> None:
    """Write the pictures first and the cases last, so that a case that is there has its pictures."""
    store.finish_all([(case.key(), _facts(outcome), _saved(case, outcome, album)) for case, outcome in finished])


def _saved(case: Case, outcome: Outcome, album: Album) -> list[ReconstructionRecord]:
    """The pictures of a case, written."""
    key = case.key()
    records = []
    for place, pixels in zip(case.images, outcome.pixels, strict=True):
        file, sha256 = save_picture(album, opaque_name(key, str(place)), pixels)
        records.append(ReconstructionRecord(key, place, file, sha256))
    return records


def _facts(outcome: Outcome) -> JSON:
    """What tables want to know of a case."""
    return {
        "objective": finite_or_none(outcome.objective),
        "snr_db": finite_or_none(outcome.snr_db),
        "labels_right": outcome.labels_right,
        "seconds": outcome.seconds,
        "message_bytes": outcome.message_bytes,
    }
