"""SIGTERM, by which machines end a process, as Ctrl-C, by which people do: what is finished is kept."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Terminated(KeyboardInterrupt):
    """SIGTERM has come: whatever minds Ctrl-C minds it as well."""


@contextmanager
def terminable() -> Iterator[None]:
    """Raise ``Terminated`` in the main thread when SIGTERM comes; the main thread must enter."""
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def sigterm_kept() -> Iterator[None]:
    """Leave SIGTERM to whoever handled it before: Ray takes it for itself as it begins, and exits without a word."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if callable(before) and signal.getsignal(signal.SIGTERM) is not before:
            signal.signal(signal.SIGTERM, before)


def _terminate(number: int, frame: FrameType | None) -> None:
    raise Terminated
