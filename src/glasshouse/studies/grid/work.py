"""Jobs of one kind, worked on by an executor, each written down as soon as it is done."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence

from glasshouse.studies.executors import Executor, Failure, JobT, ResultT, Workbench
from glasshouse.studies.runner import RunProgress, Summary


def work_off(
    jobs: Sequence[JobT],
    finished: Container[str],
    bench: Workbench[JobT, ResultT],
    executor: Executor,
    *,
    keep: Callable[[JobT, ResultT], None],
    fail: Callable[[str, str], None],
    progress: RunProgress,
    deadline: float,
) -> Summary:
    """Work on every job whose key is not ``finished``; none is begun after the deadline, of ``time.monotonic``."""
    todo = [(job,) for job in jobs if job.key() not in finished]
    found, done, failed = len(jobs) - len(todo), 0, 0
    shares: dict[str, float] = {}
    over: set[str] = set()

    def watch(key: str, share: float) -> None:
        if key in over:  # a report that comes later than the result
            return
        shares[key] = share
        progress(found + done + failed + sum(shares.values()), len(jobs))

    for (job,), (outcome,) in executor.work(todo, bench, watch=watch, deadline=deadline):
        over.add(job.key())
        shares.pop(job.key(), None)
        if isinstance(outcome, Failure):
            fail(job.key(), outcome.reason)
            failed += 1
        else:
            keep(job, outcome)
            done += 1
        progress(found + done + failed + sum(shares.values()), len(jobs))
    return Summary(len(jobs), found, done, failed)
