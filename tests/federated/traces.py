"""What a test starts on this machine: processes that inherit a mark from it, and the ports that they listen on."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

MARK = "GLASSHOUSE_TEST_MARK"
PROC = Path("/proc")
LISTENS = "0A"  # the state of a socket in /proc/net/tcp


def processes(mark: str) -> dict[int, str]:
    """Processes that the test started, directly or not, and that are still there, with their command lines."""
    found = {}
    for place in PROC.iterdir():
        with suppress(OSError):  # which ended meanwhile
            if place.name.isdecimal() and f"{MARK}={mark}".encode() in (place / "environ").read_bytes():
                found[int(place.name)] = (place / "cmdline").read_text().replace("\0", " ")
    return found


def ports(mark: str) -> dict[str, int]:
    """The ports that these processes listen on, by the inodes of their sockets."""
    links = set()
    for process in processes(mark):
        with suppress(OSError):
            for one in (PROC / str(process) / "fd").iterdir():
                with suppress(OSError):
                    links.add(str(one.readlink()))
    return {inode: port for inode, port in listening().items() if f"socket:[{inode}]" in links}


def listening() -> dict[str, int]:
    """Every port of this machine that somebody listens on, by the inode of the socket."""
    lines = [line.split() for name in ("tcp", "tcp6") for line in (PROC / "net" / name).read_text().splitlines()[1:]]
    return {line[9]: int(line[1].rpartition(":")[2], 16) for line in lines if line[3] == LISTENS}


def open_to_others(mark: str) -> set[str]:
    """Addresses, as /proc writes them, that these processes listen on and that are not of this machine alone."""
    links = ports(mark)
    lines = [line.split() for name in ("tcp", "tcp6") for line in (PROC / "net" / name).read_text().splitlines()[1:]]
    found = {line[1].partition(":")[0] for line in lines if line[9] in links}
    return {one for one in found if not one.endswith("0100007F")}


def left(mark: str, opened: dict[str, int]) -> tuple[dict[int, str], dict[str, int]]:
    """Processes and opened ports that are still there after a while."""
    deadline = time.monotonic() + 30
    while (found := (processes(mark), _still(opened))) != ({}, {}) and time.monotonic() < deadline:
        time.sleep(0.2)
    return found


def _still(opened: dict[str, int]) -> dict[str, int]:
    now = listening()
    return {inode: port for inode, port in opened.items() if inode in now}
