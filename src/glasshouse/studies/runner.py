"""Run what is left of a study; a case finished is a case kept, and so is a network trained and a thing measured."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass

from glasshouse.store import Album, ReconstructionRecord, Store
from glasshouse.studies.bench import Bench, Outcome
from glasshouse.studies.case import Case
from glasshouse.studies.executors import Executor, Failure, JobT, ResultT, Unfinished, Workbench
from glasshouse.studies.pictures import opaque_name, save_picture
from glasshouse.studies.tasks import tasks
from glasshouse.types import finite_or_none

#: Called with how many jobs are done, with fractions of those that run, and how many there are.
RunProgress = Callable[[float, int], None]


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
    progress: RunProgress = lambda done, total: None,
) -> Summary:
    """Work on every case that is not finished, and write each down as soon as it is.

    No further case is begun at the ``deadline``, a reading of ``time.monotonic``. ``most_images`` is how many fit into
    memory at once, where that is bounded.
    """
    states = {record.key: record.state for record in store.cases()}
    return work_off(
        tasks(cases, most_images),
        {case.key() for case in cases if states.get(case.key()) == "done"},
        bench,
        executor,
        keep=lambda case, outcome: keep(case, outcome, store, album),
        fail=store.fail,
        progress=progress,
        deadline=deadline,
    )


def singly(jobs: Iterable[JobT]) -> list[tuple[JobT, ...]]:
    """Each job as a task of its own, once: two ways to write a data set may share it."""
    return [(job,) for job in {job.key(): job for job in jobs}.values()]


def work_off(
    planned: Sequence[tuple[JobT, ...]],
    finished: Container[str],
    bench: Workbench[JobT, ResultT],
    executor: Executor,
    *,
    keep: Callable[[JobT, ResultT], None],
    fail: Callable[[str, str], None],
    progress: RunProgress,
    deadline: float,
) -> Summary:
    """Work on every task with a job whose key is not ``finished``, and write each job down as soon as it is done."""
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
        for job, outcome in zip(task, outcomes, strict=True):
            if job.key() in finished or isinstance(outcome, Unfinished):
                continue  # done again for the others' sake, or left to the next run
            if isinstance(outcome, Failure):
                fail(job.key(), outcome.reason)
                failed += 1
            else:
                keep(job, outcome)
                done += 1
        progress(found + done + failed + sum(shares.values()), total)
    return Summary(total, found, done, failed)


def keep(case: Case, outcome: Outcome, store: Store, album: Album) -> None:
    """Write the pictures first and the case last, so that a case that is there has its pictures."""
    key = case.key()
    records = []
    for place, pixels in zip(case.images, outcome.pixels, strict=True):
        file, sha256 = save_picture(album, opaque_name(key, str(place)), pixels)
        records.append(ReconstructionRecord(key, place, file, sha256))
    facts = {
        "objective": finite_or_none(outcome.objective),
        "snr_db": finite_or_none(outcome.snr_db),
        "labels_right": outcome.labels_right,
        "seconds": outcome.seconds,
        "message_bytes": outcome.message_bytes,
    }
    store.finish(key, facts, records)
