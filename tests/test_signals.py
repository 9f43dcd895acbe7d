"""An interrupt waits for what must not be left in its middle."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from glasshouse.signals import Terminated, put_off, terminable

RAISED = {signal.SIGINT: KeyboardInterrupt, signal.SIGTERM: Terminated}


@pytest.fixture(autouse=True)
def _minded():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    with terminable():
        yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("number", RAISED)
def test_a_block_ends_before_the_interrupt_is_raised(number):
    done = []
    hurried = threading.Semaphore(0)

    def work():
        with put_off(hurried.release):
            os.kill(os.getpid(), number)
            os.kill(os.getpid(), number)  # who presses twice breaks nothing
            assert all(hurried.acquire(timeout=60) for _ in range(3))  # who is late is hurried again
            done.append("end")

    with pytest.raises(RAISED[number]):
        work()
    assert done == ["end"]
    with pytest.raises(RAISED[number]):  # and everything is as before
        os.kill(os.getpid(), number)


def test_a_signal_that_another_thread_gets_wakes_a_block_that_waits():
    """The main thread stays asleep, as in a join that has no end, and runs no handler until it is woken."""
    asleep, done = threading.Lock(), threading.Event()
    asleep.acquire()

    def release():
        done.set()
        if asleep.locked():
            asleep.release()

    other = threading.Thread(target=done.wait, args=(60,))
    other.start()
    late = threading.Timer(0.2, lambda: signal.pthread_kill(other.ident, signal.SIGINT))

    def work():
        with put_off(release):
            late.start()
            assert asleep.acquire(timeout=30)

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        work()
    assert time.monotonic() - began < 15
    other.join()


def test_the_interrupt_is_raised_though_the_block_fails():
    def work():
        with put_off(lambda: None):
            os.kill(os.getpid(), signal.SIGINT)
            raise ValueError("because it was hurried")

    with pytest.raises(KeyboardInterrupt):
        work()


def test_nothing_changes_without_one_and_in_other_threads():
    with pytest.raises(ValueError, match="own"), put_off(lambda: None):
        raise ValueError("own")
    found = []

    def work():
        with put_off(lambda: None):
            found.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [signal.default_int_handler]


def test_an_ignored_signal_stays_ignored():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with put_off(lambda: pytest.fail("ignored")):
        os.kill(os.getpid(), signal.SIGINT)
