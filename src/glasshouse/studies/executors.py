"""Where tasks are worked on: in this process, or in local worker processes with one torch thread each."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import re
import signal
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import forkserver
from queue import Empty
from typing import Any, Protocol, TypeVar

import torch
from torch import nn

from glasshouse import devices
from glasshouse.errors import GlasshouseError, StudyError
from glasshouse.types import Progress

RETRIES = 2
PRELOADED = ("__main__", "glasshouse.studies.bench")  # imported once, by the server that workers are forked from


class Job(Protocol):
    """Something to work on, known by its key: a case to attack, a target to train."""

    def key(self) -> str:
        """The content hash under which the result is kept."""


JobT = TypeVar("JobT", bound=Job)
JobT_contra = TypeVar("JobT_contra", bound=Job, contravariant=True)
ResultT = TypeVar("ResultT")
ResultT_co = TypeVar("ResultT_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Unfinished:
    """What a bench returns where the time was over in the middle of a job: the next run goes on with it."""


class Workbench(Protocol[JobT_contra, ResultT_co]):
    """All a worker needs for jobs of one kind; ``module`` is a model given as an object, which cannot travel."""

    @property
    def module(self) -> nn.Module | None:
        """A model given as an object, or none."""

    def packed(self) -> Workbench[JobT_contra, ResultT_co]:
        """The same bench for a machine that cannot read this one's files."""

    def perform(self, jobs: Sequence[JobT_contra], progress: Progress) -> Sequence[ResultT_co | Unfinished]:
        """Work on the jobs of one task; a result for each."""


#: Called with the key of a task's first job, and how many of its jobs are done, in fractions.
Watch = Callable[[str, float], None]


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a job could not be finished."""

    reason: str


Outcomes = list[ResultT | Failure | Unfinished]
Finished = tuple[tuple[JobT, ...], Outcomes[ResultT]]


class Executor(ABC):
    """Works on tasks and yields each as it finishes; stops starting new ones at the deadline."""

    def connected(self) -> contextlib.AbstractContextManager[object]:
        """What is begun for the length of a block, so that work finds it which spreads over machines by itself."""
        return contextlib.nullcontext()

    @abstractmethod
    def work(
        self,
        tasks: Sequence[tuple[JobT, ...]],
        bench: Workbench[JobT, ResultT],
        *,
        watch: Watch,
        deadline: float,
    ) -> Iterator[Finished[JobT, ResultT]]:
        """Yield finished tasks in any order; ``deadline`` is a reading of ``time.monotonic``."""


class Inline(Executor):
    """One task after another in this process."""

    def work(
        self,
        tasks: Sequence[tuple[JobT, ...]],
        bench: Workbench[JobT, ResultT],
        *,
        watch: Watch,
        deadline: float,
    ) -> Iterator[Finished[JobT, ResultT]]:
        """Yield finished tasks in the order given."""
        for task in tasks:
            if time.monotonic() >= deadline:
                return
            yield task, perform(bench, task, watch)


@dataclass(frozen=True, slots=True)
class Local(Executor):
    """Worker processes on this machine; one that dies is replaced and its task tried again."""

    workers: int

    def work(
        self,
        tasks: Sequence[tuple[JobT, ...]],
        bench: Workbench[JobT, ResultT],
        *,
        watch: Watch,
        deadline: float,
    ) -> Iterator[Finished[JobT, ResultT]]:
        """Yield tasks as workers finish them; one in whose time a worker died is tried again by itself."""
        refuse_objects(bench)
        left = list(tasks)
        suspects: list[tuple[JobT, ...]] = []
        while left and time.monotonic() < deadline:
            running: list[tuple[JobT, ...]] = []
            try:
                yield from self._drain(left, running, bench, watch, deadline)
            except BrokenProcessPool:
                suspects += running
        for task in suspects:
            yield from self._alone(task, bench, watch, deadline)

    def _drain(
        self,
        left: list[tuple[JobT, ...]],
        running: list[tuple[JobT, ...]],
        bench: Workbench[JobT, ResultT],
        watch: Watch,
        deadline: float,
    ) -> Iterator[Finished[JobT, ResultT]]:
        """Keep every worker busy until nothing is left or the time is up; running tasks are finished."""
        futures: dict[Future[Outcomes[ResultT]], tuple[JobT, ...]] = {}
        with _pool(self.workers, bench, watch) as pool:
            while left or futures:
                while left and len(futures) < self.workers and time.monotonic() < deadline:
                    running.append(left[0])
                    futures[pool.submit(_in_worker, left.pop(0))] = running[-1]
                if not futures:
                    return
                done, _ = wait(futures, return_when=FIRST_COMPLETED)
                for future in done:
                    outcomes, task = future.result(), futures.pop(future)
                    running.remove(task)
                    yield task, outcomes

    def _alone(
        self, task: tuple[JobT, ...], bench: Workbench[JobT, ResultT], watch: Watch, deadline: float
    ) -> Iterator[Finished[JobT, ResultT]]:
        """Try a task in a worker of its own, so that no other task pays for its deaths."""
        for _ in range(RETRIES if len(task) == 1 else 1):
            if time.monotonic() >= deadline:
                return
            try:
                yield from Local(1)._drain([task], [], bench, watch, deadline)
                return
            except BrokenProcessPool:
                continue
        if len(task) > 1:  # whichever case it is, the others must not pay for it
            for case in task:
                yield from self._alone((case,), bench, watch, deadline)
            return
        reason = (
            f"The worker died {RETRIES + 1} times in the middle of this case: is there enough memory? "
            "(In a script, call from under if __name__ == '__main__'.)"
        )
        yield task, [Failure(reason)]


def refuse_objects(bench: Workbench[Any, Any]) -> None:
    """Refuse a model that was given as an object where workers are other processes."""
    if bench.module is not None:
        raise StudyError("A model given as an object cannot be sent to workers: use engine='inline'.")


def perform(bench: Workbench[JobT, ResultT], task: tuple[JobT, ...], watch: Watch) -> Outcomes[ResultT]:
    """Work on a task; what a user can cause becomes a failure, anything else is a bug and goes on up.

    Where one case fails, the others must not pay for it: each is tried by itself.
    """
    key = task[0].key()
    try:
        return list(bench.perform(task, lambda share: watch(key, share * len(task))))
    except GlasshouseError as error:
        if len(task) == 1:
            return [Failure(str(error))]
    return [outcome for case in task for outcome in perform(bench, (case,), lambda _, share: None)]


_worker: dict[str, Any] = {}


def _start_worker(bench: Workbench[Any, Any], reports: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the driver, which ends the workers
    torch.set_num_threads(1)
    # Python counts the processes that the driver starts in their names, "-3", or "-1:3" where the driver is itself
    # one that was started: neighbours take turns at the GPUs
    devices.settle(int(re.split("[-:]", multiprocessing.current_process().name)[-1]))
    _worker["bench"], _worker["reports"] = bench, reports
    threading.Thread(target=_end_with_driver, daemon=True).start()


def _end_with_driver() -> None:
    """Leave when the driver is gone, even if it was killed without a word."""
    driver = multiprocessing.parent_process()
    if driver is not None:
        driver.join()
        os._exit(1)


def sparing(tell: Watch) -> Watch:
    """Tell of every hundredth part alone: reports leave the process."""
    last = 0.0

    def watch(key: str, share: float) -> None:
        nonlocal last
        if share - last >= 0.01 or share < last:
            last = share
            tell(key, share)

    return watch


def _in_worker(task: tuple[Any, ...]) -> list[Any]:
    return perform(_worker["bench"], task, sparing(lambda key, share: _worker["reports"].put((key, share))))


def _begin_server() -> None:
    """Begin the server that forks workers, deaf to Ctrl-C: while it loads torch it would answer with a traceback."""
    if threading.current_thread() is not threading.main_thread():  # only the main thread may change what signals do
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        forkserver.ensure_running()
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)


@contextlib.contextmanager
def _pool(workers: int, bench: Workbench[Any, Any], watch: Watch) -> Iterator[ProcessPoolExecutor]:
    """A pool of workers whose progress reaches ``watch``; killed, not waited for, on the way out."""
    context = multiprocessing.get_context(
        "forkserver"
    )  # has no threads, and knows torch: a new worker is there at once
    context.set_forkserver_preload(list(PRELOADED))
    _begin_server()
    reports = context.Queue()
    over = threading.Event()

    def listen() -> None:
        while not over.is_set():
            with contextlib.suppress(Empty):
                watch(*reports.get(timeout=0.2))

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    before = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_start_worker, initargs=(bench, reports))
    try:
        yield pool
    finally:
        # not those the pool lists: an interrupt in the middle of a start leaves one out, and Python waits for it
        workers_left = set(multiprocessing.active_children()) - before
        pool.shutdown(wait=False, cancel_futures=True)
        for process in workers_left:
            process.terminate()
        over.set()
        listener.join()
