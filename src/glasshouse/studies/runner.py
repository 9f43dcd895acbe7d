"""Run what is left of a study; a case finished is a case kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from glasshouse.store import Album, ReconstructionRecord, Store
from glasshouse.studies.bench import Bench, Outcome
from glasshouse.studies.case import Case
from glasshouse.studies.executors import Executor, Failure
from glasshouse.studies.pictures import opaque_name, save_picture
from glasshouse.studies.tasks import tasks
from glasshouse.types import finite_or_none

#: Called with how many cases are done, as a fraction of them while they run, and how many there are.
RunProgress = Callable[[float, int], None]


@dataclass(frozen=True, slots=True)
class Summary:
    """What a run did: cases in the plan, found finished, finished now, failed now, and still to do."""

    planned: int
    found: int
    done: int
    failed: int

    @property
    def left(self) -> int:
        """How many cases another run has to do."""
        return self.planned - self.found - self.done - self.failed


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
    finished = {case.key() for case in cases if states.get(case.key()) == "done"}
    todo = [task for task in tasks(cases, most_images) if any(case.key() not in finished for case in task)]
    found = len(finished)
    done = failed = 0
    shares: dict[str, float] = {}
    over: set[str] = set()

    def watch(key: str, share: float) -> None:
        if key in over:  # a report that comes later than the result
            return
        shares[key] = share
        progress(found + done + failed + sum(shares.values()), len(cases))

    progress(found, len(cases))
    for task, outcomes in executor.work(todo, bench, watch=watch, deadline=deadline):
        for case, outcome in zip(task, outcomes, strict=True):
            if case.key() in finished:
                continue  # done again for the others' sake
            if isinstance(outcome, Failure):
                store.fail(case.key(), outcome.reason)
                failed += 1
            else:
                keep(case, outcome, store, album)
                done += 1
        over.add(task[0].key())
        shares.pop(task[0].key(), None)
        progress(found + done + failed + sum(shares.values()), len(cases))
    return Summary(len(cases), found, done, failed)


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
    }
    store.finish(key, facts, records)
