"""A real PostgreSQL server for tests: Debian's package, run as an ordinary user on a free port of this machine."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import OperationalError

SMALL = {"shared_buffers": "16MB", "max_connections": "120", "fsync": "on", "max_wal_size": "64MB", "jit": "off"}


def programs() -> Path:
    """Where the server's programs lie, or a skip with the reason."""
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'glasshouse[annotate]'")
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    on_path = shutil.which("initdb")
    if not found and on_path is None:
        pytest.skip("PostgreSQL is not installed: apt install postgresql")
    if os.geteuid() == 0 and shutil.which("runuser") is None:
        pytest.skip("PostgreSQL does not run as root, and there is no runuser to become somebody else")
    return found[-1].parent if found else Path(str(on_path)).resolve().parent


@contextmanager
def running_server() -> Iterator[str]:
    """The URL of a fresh server's own database; the server ends with the block."""
    binaries = programs()
    somebody = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    with tempfile.TemporaryDirectory(prefix="glasshouse-postgres-") as folder:
        home = Path(folder)
        if somebody:
            shutil.chown(home, "postgres")
        data = str(home / "data")
        initialise = [f"{binaries}/initdb", "--auth=trust", "--username=tester", "--no-sync", "--encoding=UTF8"]
        subprocess.run([*somebody, *initialise, "--locale=C", data], check=True, capture_output=True, cwd=folder)
        port = _free_port()
        settings = [part for name, value in SMALL.items() for part in ("-c", f"{name}={value}")]
        place = ["-D", data, "-p", str(port), "-h", "127.0.0.1", "-k", folder]
        with (home / "log").open("wb") as log:
            server = subprocess.Popen(
                [*somebody, f"{binaries}/postgres", *place, *settings], stdout=log, stderr=log, cwd=folder
            )
        try:
            url = f"postgresql+psycopg://tester@127.0.0.1:{port}/postgres"
            _wait_for(url, server, home / "log")
            yield url
        finally:
            _stop(server, Path(data) / "postmaster.pid")


@contextmanager
def fresh_database(server: str, name: str) -> Iterator[str]:
    """The URL of an empty database on a server; it is dropped with the block."""
    engine = create_engine(server, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f'CREATE DATABASE "{name}"'))
    try:
        yield f"{server.rpartition('/')[0]}/{name}"
    finally:
        with engine.connect() as connection:
            connection.execute(text(f'DROP DATABASE "{name}" WITH (FORCE)'))
        engine.dispose()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_for(url: str, server: subprocess.Popen[bytes], log: Path, seconds: float = 60.0) -> None:
    engine = create_engine(url)
    end = time.monotonic() + seconds
    while True:
        try:
            engine.connect().close()
            return engine.dispose()
        except OperationalError:
            if server.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"PostgreSQL did not start: {log.read_text()}") from None
            time.sleep(0.05)


def _stop(server: subprocess.Popen[bytes], number: Path) -> None:
    """Ask the server itself to end at once: under runuser it is a grandchild."""
    with suppress(FileNotFoundError, ProcessLookupError):
        os.kill(int(number.read_text().split()[0]), signal.SIGINT)
    server.wait(timeout=30)
