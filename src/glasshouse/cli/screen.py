"""What people see while they wait: bars with rate and time left, on the error stream."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
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


def _plain(what: str, unit: str) -> Advance:
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
        print(f"{what}: {done:.1f} of {total} {unit}{facts}", file=sys.stderr, flush=True)

    return advance
