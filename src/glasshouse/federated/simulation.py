"""Flower's simulation on Ray, on this machine: quiet, without telemetry, and gone when it is over."""

from __future__ import annotations

import logging
import os
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from tempfile import TemporaryDirectory, gettempdir
from typing import TYPE_CHECKING

from glasshouse import checks, devices
from glasshouse.rays import at_home, environment
from glasshouse.signals import put_off

if TYPE_CHECKING:
    from flwr.app import ConfigRecordValues
    from flwr.clientapp import ClientApp
    from flwr.serverapp import ServerApp

LONG = 24  # letters of a directory for temporary files below which the paths of Ray's sockets fit
BUSY = "ray::ClientAppActor.run"  # how a process begins its command line in which Flower runs a client
AGAIN = {"max_restarts": -1, "max_task_retries": 1}  # else a dead worker takes all messages, and fails each at once
OFTEN = 0.2  # seconds between looks for clients that work for nobody
QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_worker_niceness": "0",  # Ray's own 15 lets anything else on the machine starve the clients
    "GRPC_VERBOSITY": "NONE",
    "OMP_NUM_THREADS": "1",
}


def need_flower() -> None:
    """Refuse to go on without Flower and Ray."""
    with checks.from_extra("federated", "A federation"):
        import flwr  # noqa: F401
        import ray  # noqa: F401


@contextmanager
def silent(*names: str) -> Iterator[None]:
    """Loggers that say nothing for the length of a block: what goes wrong in a client is told in its round."""
    loggers = [logging.getLogger(name) for name in names]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


def simulate(client: ClientApp, server: ServerApp, clients: int, stopping: threading.Event, cores: int) -> None:
    """Run both apps on as many Ray workers as there are cores or clients, and leave nothing behind.

    ``stopping`` is set by Ctrl-C and when the server is done, and then whatever clients still do is for nobody. Threads
    of Flower that wait for clients never return if Ray ends first: such clients are ended in the middle of their
    training, Flower comes to its own end, and only then Ray does. A worker that dies is started again. Ray is begun
    here, as Flower would, because it must not take SIGTERM; a second SIGTERM while Ray ends still kills at once, for
    Ray then gives it back to the system. A caller who is connected to a cluster is not any more: Flower ends the
    connection.
    """
    import ray
    from flwr.simulation import run_simulation

    workers = min(cores, clients)
    share = devices.share_of_gpu(workers)
    granted = {devices.VARIABLE: ""} if share else {}  # Ray shows each client the one GPU that it gives it
    with (
        environment(granted),
        TemporaryDirectory(prefix="gh-", dir=_short(), ignore_cleanup_errors=True) as folder,
    ):
        each: dict[str, ConfigRecordValues] = {"num_cpus": 1, "num_gpus": share, **AGAIN}
        begun = not ray.is_initialized()  # else the cluster is the caller's, and stays
        try:
            if begun:
                with at_home():
                    ray.init(
                        num_cpus=workers,
                        include_dashboard=False,
                        log_to_driver=False,
                        logging_level=logging.CRITICAL,
                        runtime_env={"env_vars": {"PYTHONPATH": os.pathsep.join(sys.path)}},
                        _temp_dir=f"{folder}/ray",  # which Ray opens to everybody, behind a folder that is not
                    )
            with _discreet(), put_off(stopping.set) if begun else nullcontext(), _ending(stopping):
                run_simulation(server, client, clients, backend_config={"client_resources": each})
        finally:
            if begun:
                ray.shutdown()


def _short() -> str | None:
    """Where Ray's sockets may lie, for their paths are limited: not in a long TMPDIR, as clusters have."""
    return "/tmp" if len(gettempdir()) > LONG and os.access("/tmp", os.W_OK) else None  # noqa: S108 - made for us alone


@contextmanager
def _discreet() -> Iterator[None]:
    """Keep Ray from telling standard output of every worker that dies: rounds name the clients that were lost."""
    from ray._private.ray_logging import stdout_deduplicator as told

    before, told.skip_re = told.skip_re, re.compile(".")
    try:
        yield
    finally:
        told.skip_re = before


@contextmanager
def _ending(stopping: threading.Event) -> Iterator[None]:
    """From the moment of stopping end every client that works, until the block is over."""
    over = threading.Event()

    def watch() -> None:
        stopping.wait()
        while not over.wait(OFTEN):
            end_busy_clients()

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    try:
        yield
    finally:
        stopping.set()
        over.set()
        watching.join()


def end_busy_clients() -> None:
    """End the processes in which Ray runs clients for this one, in the middle of whatever they do."""
    import psutil

    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):  # gone by itself, or on its way
            if " ".join(process.cmdline()).startswith(BUSY):
                process.kill()
