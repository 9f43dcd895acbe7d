"""What people see while they wait: bars with rate and time left, on the error stream."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

PLAIN_EVERY = 10.0
SLOWEST = 0.05  # per minute: less is written as nothing
PER_CENT = "%"  # a share done: how many per minute says nothing

Advance = Callable[[float, int], None]
Say = Callable[[str], None]
#: Shows stages as the user wants to see them.
Watched = Callable[[], AbstractContextManager["Stages"]]


class RateColumn(ProgressColumn):
    """How many of the things counted are done per minute."""

    def render(self, task: Task) -> Text:
        """The rate, once there is one."""
        speed, unit = task.finished_speed or task.speed, task.fields["unit"]
        return Text(f"{speed * 60:.1f} {unit}/min" if speed and unit != PER_CENT else "", style="dim")


@contextmanager
def counting(what: str, unit: str) -> Iterator[Advance]:
    """Show progress through a counted job; plain lines where the output is not a terminal."""
    with stages() as shown:
        yield shown.stage(what, unit)


@contextmanager
def tallying(what: str, unit: str) -> Iterator[Callable[[int], None]]:
    """Show progress through a job whose end is not known beforehand."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}: {task.completed:.0f}"), RateColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task(what, total=None, unit=unit)
        yield lambda done: bar.update(task, completed=done)


class Stages:
    """Progress through one stage of a job after another; a stage appears when it first advances."""

    def __init__(self, bar: Progress | None, lines: Sequence[Say]) -> None:
        self._bar, self._lines = bar, lines

    def stage(self, what: str, unit: str) -> Advance:
        """What a stage calls to advance: a bar on a terminal, lines where somebody takes them, both or neither."""
        ways = [_on_bar(self._bar, what, unit)] if self._bar else []
        ways += [_plain(what, unit, self._say_plainly)] if self._lines else []

        def advance(done: float, total: int) -> None:
            for way in ways:
                way(done, total)

        return advance

    def say(self, line: str) -> None:
        """Tell of something that happened, above the bars where there are any."""
        self._say_plainly(line)
        if self._bar:
            self._bar.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def _say_plainly(self, line: str) -> None:
        for say in self._lines:
            say(line)


@contextmanager
def stages(*, quiet: bool = False, log: Say | None = None) -> Iterator[Stages]:
    """Show progress through a job of several stages; lines go to ``log``, and to an error stream that is piped."""
    console = Console(stderr=True)
    piped = not (quiet or console.is_terminal)
    lines: list[Say] = [partial(print, file=sys.stderr, flush=True)] if piped else []
    lines += [log] if log else []
    if quiet or piped:
        yield Stages(None, lines)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:.1f}/{task.total:.0f}"),
        RateColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, speed_estimate_period=120) as bar:
        yield Stages(bar, lines)


def _on_bar(bar: Progress, what: str, unit: str) -> Advance:
    """A bar that appears when it is first told of progress."""
    task: TaskID | None = None

    def advance(done: float, total: int) -> None:
        nonlocal task
        if task is None:
            task = bar.add_task(what, total=total, unit=unit)
        bar.update(task, completed=done, total=total)

    return advance


def _plain(what: str, unit: str, say: Say) -> Advance:
    """Progress as a line every few seconds, for logs and pipes; it counts from when it is first told of any."""
    first: tuple[float, float] | None = None
    last, ended = 0.0, False

    def advance(done: float, total: int) -> None:
        nonlocal last, first, ended
        now = time.monotonic()
        if first is None:
            first, last = (now, done), now
        began, before = first
        if ended or (now - last < PLAIN_EVERY and done < total):
            return
        last, ended = now, done >= total
        rate = (done - before) / max(now - began, 1e-9)
        say(f"{what}: {done:.{0 if done == int(done) else 1}f} of {total} {unit}{pace(rate, total - done, unit)}")

    return advance


def pace(rate: float, left: float, unit: str) -> str:
    """How fast it goes, and how long what is left takes at that rate per second."""
    speed = [] if unit == PER_CENT or rate * 60 < SLOWEST else [f"{rate * 60:.1f}/min"]
    time_left = [f"{left / rate:.0f} s left"] if rate > 0 and left > 0 else []
    return f" ({', '.join(speed + time_left)})" if speed + time_left else ""
