"""Where cases are worked on: in this process, or in local worker processes with one torch thread each."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from queue import Empty
from typing import Any

import torch

from glasshouse.errors import GlasshouseError, StudyError
from glasshouse.studies.bench import Bench, Outcome
from glasshouse.studies.case import Case

RETRIES = 2

#: Called with a case's key and the share of it that is done.
Watch = Callable[[str, float], None]


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a case could not be finished."""

    reason: str


Finished = tuple[Case, Outcome | Failure]


class Executor(ABC):
    """Works on cases and yields each as it finishes; stops starting new ones at the deadline."""

    @abstractmethod
    def work(self, cases: Sequence[Case], bench: Bench, *, watch: Watch, deadline: float) -> Iterator[Finished]:
        """Yield finished cases in any order; ``deadline`` is a reading of ``time.monotonic``."""


class Inline(Executor):
    """One case after another in this process."""

    def work(self, cases: Sequence[Case], bench: Bench, *, watch: Watch, deadline: float) -> Iterator[Finished]:
        """Yield finished cases in the order given."""
        for case in cases:
            if time.monotonic() >= deadline:
                return
            yield case, _perform(bench, case, watch)


@dataclass(frozen=True, slots=True)
class Local(Executor):
    """Worker processes on this machine; one that dies is replaced and its case tried again."""

    workers: int

    def work(self, cases: Sequence[Case], bench: Bench, *, watch: Watch, deadline: float) -> Iterator[Finished]:
        """Yield cases as workers finish them; one in whose time a worker died is tried again by itself."""
        if bench.module is not None:
            raise StudyError("A model given as an object cannot be sent to workers: use engine='inline'.")
        left, suspects = list(cases), []
        while left and time.monotonic() < deadline:
            running: list[Case] = []
            try:
                yield from self._drain(left, running, bench, watch, deadline)
            except BrokenProcessPool:
                suspects += running
        for case in suspects:
            yield from self._alone(case, bench, watch, deadline)

    def _drain(
        self, left: list[Case], running: list[Case], bench: Bench, watch: Watch, deadline: float
    ) -> Iterator[Finished]:
        """Keep every worker busy until nothing is left or the time is up; running cases are finished."""
        futures: dict[Future[Outcome | Failure], Case] = {}
        with _pool(self.workers, bench, watch) as pool:
            while left or futures:
                while left and len(futures) < self.workers and time.monotonic() < deadline:
                    running.append(left[0])
                    futures[pool.submit(_in_worker, left.pop(0))] = running[-1]
                if not futures:
                    return
                done, _ = wait(futures, return_when=FIRST_COMPLETED)
                for future in done:
                    outcome, case = future.result(), futures.pop(future)
                    running.remove(case)
                    yield case, outcome

    def _alone(self, case: Case, bench: Bench, watch: Watch, deadline: float) -> Iterator[Finished]:
        """Try a case in a worker of its own, so that no other case pays for its deaths."""
        for _ in range(RETRIES):
            if time.monotonic() >= deadline:
                return
            try:
                yield from Local(1)._drain([case], [], bench, watch, deadline)
                return
            except BrokenProcessPool:
                continue
        yield (
            case,
            Failure(
                f"The worker died {RETRIES + 1} times in the middle of this case: is there enough memory? "
                "(In a script, call from under if __name__ == '__main__'.)"
            ),
        )


def _perform(bench: Bench, case: Case, watch: Watch) -> Outcome | Failure:
    """Work on a case; what a user can cause becomes a failure, anything else is a bug and goes on up."""
    key = case.key()
    try:
        return bench.perform(case, lambda share: watch(key, share))
    except GlasshouseError as error:
        return Failure(str(error))


_worker: dict[str, Any] = {}


def _start_worker(bench: Bench, reports: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the driver, which ends the workers
    torch.set_num_threads(1)
    _worker["bench"], _worker["reports"] = bench, reports
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()


def _end_with_parent(parent: int) -> None:
    """Leave when the driver is gone, even if it was killed without a word."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def _in_worker(case: Case) -> Outcome | Failure:
    last = 0.0

    def watch(key: str, share: float) -> None:
        nonlocal last
        if share - last >= 0.01 or share < last:
            last = share
            _worker["reports"].put((key, share))

    return _perform(_worker["bench"], case, watch)


@contextlib.contextmanager
def _pool(workers: int, bench: Bench, watch: Watch) -> Iterator[ProcessPoolExecutor]:
    """A pool of spawned workers whose progress reaches ``watch``; killed, not waited for, on the way out."""
    context = multiprocessing.get_context("spawn")
    reports = context.Queue()
    over = threading.Event()

    def listen() -> None:
        while not over.is_set():
            with contextlib.suppress(Empty):
                watch(*reports.get(timeout=0.2))

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_start_worker, initargs=(bench, reports))
    try:
        yield pool
    finally:
        processes = list((pool._processes or {}).values())
        pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.terminate()
        over.set()
        listener.join()
