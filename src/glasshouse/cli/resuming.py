"""What people read when a long command ends before its time: what is kept, and how to go on."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from glasshouse.cli.typed import same_command
from glasshouse.signals import Terminated, terminable


@contextmanager
def resumable(kept: str) -> Iterator[None]:
    """Say how to go on after Ctrl-C or SIGTERM, and exit as a shell would: 130 or 143."""
    try:
        with terminable():
            yield
    except KeyboardInterrupt as ended:
        print(f"Interrupted. {kept}. To go on:\n  {same_command()}", file=sys.stderr)
        number = signal.SIGTERM if isinstance(ended, Terminated) else signal.SIGINT
        raise typer.Exit(128 + number) from None
