"""SIGTERM, by which machines end a process, as Ctrl-C, by which people do: what is finished is kept."""

from __future__ import annotations

import os
import select
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

AGAIN = 0.3  # seconds until who is late is hurried again
OVER = 0  # the number of no signal


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


@contextmanager
def put_off(hurry: Callable[[], None]) -> Iterator[None]:
    """Let a block that must not be left in its middle come to its own end before Ctrl-C or SIGTERM is raised.

    Once one has come ``hurry``, which should make the block end soon, is called every now and then in a thread of its
    own; the first signal is raised where the block ends. Signals that are ignored stay so, and other threads than the
    main one hear of none anyway. That thread hears of signals by itself: one that the system hands to any other thread
    does not wake the main one, whose handlers wait until it is.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    before = {number: handler for number, handler in handlers.items() if callable(handler)}
    come: list[signal.Signals] = []
    heard, told = os.pipe()
    os.set_blocking(told, False)

    def press() -> None:
        hurried = False
        while True:
            if select.select([heard], [], [], AGAIN if hurried else None)[0]:
                number = os.read(heard, 1)[0]
                if number == OVER:
                    return
                hurried = hurried or number in before
            if hurried:
                hurry()

    def note(number: int, frame: FrameType | None) -> None:
        come.append(signal.Signals(number))

    thread = threading.Thread(target=press, daemon=True)
    thread.start()
    for number in before:
        signal.signal(number, note)
    others = signal.set_wakeup_fd(told, warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(others)
        os.write(told, bytes([OVER]))
        thread.join()
        os.close(heard)
        os.close(told)
        for number in reversed(before):
            signal.signal(number, before[number])
        if come:
            before[come[0]](come[0], None)


def _terminate(number: int, frame: FrameType | None) -> None:
    raise Terminated
