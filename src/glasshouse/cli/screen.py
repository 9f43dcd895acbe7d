"""What people see while they wait: bars with rate and time left, on the error stream."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TextIO

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
PER_CENT = "%"  # a share done: how many per minute says nothing

Advance = Callable[[float, int], None]


class RateColumn(ProgressColumn):
    """How many of the things counted are done per minute."""

    def __init__(self, unit: str) -> None:
        super().__init__()
        self.unit = unit

    def render(self, task: Task) -> Text:
        """The rate, once there is one."""
        speed = task.finished_speed or task.speed
        return Text(f"{speed * 60:.1f} {self.unit}/min" if speed else "", style="dim")


@contextmanager
def counting(what: str, unit: str) -> Iterator[Advance]:
    """Show progress through a counted job; plain lines where the output is not a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _plain(what, unit)
        return
    rate = () if unit == PER_CENT else (RateColumn(unit),)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:.1f}/{task.total:.0f}"),
        *rate,
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, speed_estimate_period=120) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def tallying(what: str, unit: str) -> Iterator[Callable[[int], None]]:
    """Show progress through a job whose end is not known beforehand."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}: {task.completed:.0f}"), RateColumn(unit), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done: bar.update(task, completed=done)


class Stages:
    """Progress through one stage of a job after another; a stage appears when it first advances."""

    def __init__(self, bar: Progress | None, say: Callable[[str], None] | None) -> None:
        self._bar, self._say = bar, say

    def stage(self, what: str, unit: str) -> Advance:
        """What a stage calls to advance: a bar on a terminal, lines where somebody takes them, both or neither."""
        ways = [_on_bar(self._bar, what)] if self._bar else []
        ways += [_plain(what, unit, self._say)] if self._say else []

        def advance(done: float, total: int) -> None:
            for way in ways:
                way(done, total)

        return advance


@contextmanager
def stages(*, quiet: bool = False, log: TextIO | None = None) -> Iterator[Stages]:
    """Show progress through a job of several stages; lines go to ``log``, or to an error stream that is piped."""
    console = Console(stderr=True)
    plain = log or (None if quiet or console.is_terminal else sys.stderr)
    say = None if plain is None else partial(print, file=plain, flush=True)
    if quiet or not console.is_terminal:
        yield Stages(None, say)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:.1f}/{task.total:.0f}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, speed_estimate_period=120) as bar:
        yield Stages(bar, say)


def _on_bar(bar: Progress, what: str) -> Advance:
    """A bar that appears when it is first told of progress."""
    task: TaskID | None = None

    def advance(done: float, total: int) -> None:
        nonlocal task
        if task is None:
            task = bar.add_task(what, total=total)
        bar.update(task, completed=done, total=total)

    return advance


def to_errors(line: str) -> None:
    """Print a line to the error stream."""
    print(line, file=sys.stderr, flush=True)


def _plain(what: str, unit: str, say: Callable[[str], None] = to_errors) -> Advance:
    """Progress as a line every few seconds, for logs and pipes."""
    began = last = time.monotonic()
    first: float | None = None
    ended = False

    def advance(done: float, total: int) -> None:
        nonlocal last, first, ended
        now = time.monotonic()
        first = done if first is None else first
        if ended or (now - last < PLAIN_EVERY and done < total):
            return
        last, ended = now, done >= total
        rate = (done - first) / max(now - began, 1e-9)
        speed = [] if unit == PER_CENT else [f"{rate * 60:.1f}/min"]
        left = [f"{(total - done) / rate:.0f} s left"] if rate > 0 and done < total else []
        facts = f" ({', '.join(speed + left)})" if speed + left else ""
        say(f"{what}: {done:.1f} of {total} {unit}{facts}")

    return advance
