"""Flower's simulation on Ray, on this machine: quiet, without telemetry, and gone when it is over."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from glasshouse import checks, devices
from glasshouse.signals import sigterm_kept

if TYPE_CHECKING:
    from flwr.app import ConfigRecordValues
    from flwr.clientapp import ClientApp
    from flwr.serverapp import ServerApp

QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_DEDUP_LOGS": "0",
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
def environment(values: Mapping[str, str]) -> Iterator[None]:
    """Environment variables for the length of a block; Flower changes the path of Python, too."""
    before = dict(os.environ)
    os.environ.update(values)
    try:
        yield
    finally:
        for name in set(os.environ) - set(before):
            del os.environ[name]
        os.environ.update(before)


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

    ``stopping`` is set on the way out, also after Ctrl-C, so that the server's thread does not wait for clients that
    are gone. Ray is begun here, as Flower would, because it must not take SIGTERM. A caller who is connected to a
    cluster is not any more: Flower ends the connection.
    """
    import ray
    from flwr.simulation import run_simulation

    workers = min(cores, clients)
    share = devices.share_of_gpu(workers)
    granted = {devices.VARIABLE: ""} if share else {}  # Ray shows each client the one GPU that it gives it
    with (
        environment(granted),
        TemporaryDirectory(prefix="gh-", ignore_cleanup_errors=True) as folder,  # short: Ray puts sockets there
    ):
        each: dict[str, ConfigRecordValues] = {"num_cpus": 1, "num_gpus": share}
        begun = not ray.is_initialized()  # else the cluster is the caller's, and stays
        try:
            if begun:
                with sigterm_kept():
                    ray.init(
                        num_cpus=workers,
                        include_dashboard=False,
                        log_to_driver=False,
                        logging_level=logging.CRITICAL,
                        runtime_env={"env_vars": {"PYTHONPATH": os.pathsep.join(sys.path)}},
                        _temp_dir=folder,
                    )
            run_simulation(server, client, clients, backend_config={"client_resources": each})
        finally:
            stopping.set()
            if begun:
                ray.shutdown()
