"""Tasks on a Ray cluster: workers on any machine get a copy of the bench, only the driver writes."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from glasshouse import checks, devices
from glasshouse.errors import DeviceError, StudyError
from glasshouse.rays import at_home
from glasshouse.signals import sigterm_kept
from glasshouse.studies.executors import (
    RETRIES,
    Executor,
    Failure,
    Finished,
    JobT,
    ResultT,
    Watch,
    Workbench,
    perform,
    refuse_objects,
    sparing,
)

LOCAL = "local"
LOOK_AGAIN = 2.0  # seconds after which the cluster is asked anew how far its tasks are and how many cores it has


@dataclass(frozen=True, slots=True)
class Ray(Executor):
    """Ray tasks of one core each, and of one GPU each in a cluster that has any, if GLASSHOUSE_DEVICE allows it.

    What dies with its worker or node is tried again elsewhere, by Ray itself.

    ``address`` is 'local' for a cluster of ``workers`` on this machine, 'auto' for the one this machine belongs to, or
    ray://HOST:PORT.
    """

    workers: int
    address: str = LOCAL

    def connected(self) -> contextlib.AbstractContextManager[object]:
        """The cluster: Flower, for example, gives clients to it where there is one already."""
        return connected(self.address, self.workers)

    def work(
        self,
        tasks: Sequence[tuple[JobT, ...]],
        bench: Workbench[JobT, ResultT],
        *,
        watch: Watch,
        deadline: float,
    ) -> Iterator[Finished[JobT, ResultT]]:
        """Yield tasks as the cluster finishes them; as many are under way as it has cores."""
        refuse_objects(bench)
        if not tasks or time.monotonic() >= deadline:  # after an interrupt for example: nothing is begun
            return
        with connected(self.address, self.workers) as ray, _told(ray, self.address):
            crew = _Crew(ray, bench)
            left = list(tasks)
            try:
                while left or crew.running:
                    while left and len(crew.running) < crew.cores() and time.monotonic() < deadline:
                        crew.begin(left.pop(0))
                    if not crew.running:
                        return
                    yield from crew.finished(left, watch)
            finally:
                crew.dismiss()


@contextlib.contextmanager
def _told(ray: Any, address: str) -> Iterator[None]:
    """Say in one line that the cluster went away."""
    try:
        yield
    except _gone(ray) as error:
        raise StudyError(
            f"The Ray cluster at '{address}' is gone ({_first_line(error)}): what is finished is kept; "
            "begin the cluster again, and give the same command."
        ) from error


def _gone(ray: Any) -> tuple[type[Exception], ...]:
    """What is raised when a whole cluster does not answer, and not one worker or node of it."""
    return ConnectionError, ray.exceptions.RaySystemError, ray.exceptions.RpcError


class _Crew:
    """The tasks that are under way on a cluster."""

    def __init__(self, ray: Any, bench: Workbench[Any, Any]) -> None:
        self._ray = ray
        self._name = secrets.token_hex(8)
        # in a list Ray does not fetch it for every task: a worker fetches it once
        self._parcel = [ray.put(bench.packed())]
        self._gpu = wants_gpu(ray.cluster_resources())
        self._step = ray.remote(num_cpus=1, num_gpus=int(self._gpu), max_retries=RETRIES)(_in_worker)
        # beside the driver, so that no other node takes it along when it dies
        beside = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
            ray.get_runtime_context().get_node_id(), soft=True
        )
        self._board = ray.remote(num_cpus=0)(_Board).options(scheduling_strategy=beside).remote()
        self._asked: Any = None  # of the board, and not answered yet
        self.running: dict[Any, tuple[Any, ...]] = {}

    def cores(self) -> int:
        """How many tasks the cluster can work on at once, by now."""
        return max(int(self._ray.cluster_resources().get("GPU" if self._gpu else "CPU", 1)), 1)

    def begin(self, task: tuple[Any, ...]) -> None:
        """Hand a task to the cluster."""
        self.running[self._step.remote(self._name, self._parcel, self._board, task, self._gpu)] = task

    def finished(self, left: list[tuple[Any, ...]], watch: Watch) -> Iterator[Finished[Any, Any]]:
        """Yield what is finished by now; a task of several jobs that killed its workers is begun anew, job by job."""
        done, _ = self._ray.wait(list(self.running), timeout=LOOK_AGAIN)
        for key, share in self._news().items():
            watch(key, share)
        for reference in done:
            task = self.running.pop(reference)
            try:
                yield task, self._ray.get(reference)
            except self._ray.exceptions.RayTaskError as error:  # a bug of ours, with the worker's traceback
                raise error.as_instanceof_cause() from None
            except _gone(self._ray):
                raise
            except self._ray.exceptions.RayError as error:
                if len(task) > 1:  # whichever job it is, the others must not pay for it
                    left[:0] = [(job,) for job in task]
                    continue
                reason = f"The worker died {RETRIES + 1} times in the middle of this case: {type(error).__name__}."
                yield task, [Failure(reason)]

    def _news(self) -> dict[str, float]:
        """How far tasks are; an answer that is late is read the next time, since the board gives it once."""
        if self._asked is None:
            self._asked = self._board.news.remote()
        found: dict[str, float] = {}
        with contextlib.suppress(self._ray.exceptions.RayError):  # how far tasks are is not worth a run
            if not self._ray.wait([self._asked], timeout=LOOK_AGAIN)[0]:
                return found
            found = self._ray.get(self._asked)
        self._asked = None
        return found

    def dismiss(self) -> None:
        """Stop what is still under way, after an interrupt for example."""
        if not self._ray.is_initialized():  # to cancel anything would begin a cluster anew
            return
        for reference in self.running:
            with contextlib.suppress(self._ray.exceptions.RayError):
                self._ray.cancel(reference, force=True)


class _Board:
    """Where workers write down how far they are, for the driver to read."""

    def __init__(self) -> None:
        self._shares: dict[str, float] = {}

    def tell(self, key: str, share: float) -> None:
        """How far a task is."""
        self._shares[key] = share

    def news(self) -> dict[str, float]:
        """How far tasks are of which something was told since somebody last asked."""
        found, self._shares = self._shares, {}
        return found


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]


_benches: dict[str, Workbench[Any, Any]] = {}


def wants_gpu(cluster: Mapping[str, float]) -> bool:
    """Whether tasks ask for a GPU of a cluster with such resources; to ask for one where there is none is refused."""
    wanted, there = devices.wish(), cluster.get("GPU", 0) >= 1
    if wanted is not None and wanted != devices.CPU and not there:
        raise DeviceError(
            f"{devices.VARIABLE}={wanted}, but no machine of the cluster told Ray of a GPU: begin one with "
            f"'ray start --num-gpus 1', or set {devices.VARIABLE}=cpu."
        )
    return there and wanted != devices.CPU


def _in_worker(name: str, parcel: list[Any], board: Any, task: tuple[Any, ...], gpu: bool) -> list[Any]:
    """Work on a task with the bench of that name, which is fetched once in each worker process."""
    import ray
    import torch

    if name not in _benches:
        torch.set_num_threads(1)
        devices.granted(gpu)
        _benches.clear()  # one at a time: those of earlier stages are not needed any more
        _benches[name] = ray.get(parcel[0])
    return perform(_benches[name], task, sparing(board.tell.remote))


@contextlib.contextmanager
def connected(address: str, workers: int) -> Iterator[Any]:
    """Ray, connected; a connection that somebody else made is used and left alone."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent anywhere
    with checks.from_extra("ray", "Engine 'ray'"):
        import ray
    if ray.is_initialized():
        yield ray
        return
    own: dict[str, Any] = {"num_cpus": workers, "include_dashboard": False} if address == LOCAL else {}
    try:
        with at_home() if own else sigterm_kept(), warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # tips for who calls Ray, which is nobody but us
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **own)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise StudyError(f"There is no Ray cluster at '{address}' ({error}): begin one: 'ray start --head'.") from error
    try:
        yield ray
    finally:
        ray.shutdown()
