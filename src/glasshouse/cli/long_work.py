"""What commands that take long have in common: they can be quiet, and write a log."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glasshouse.cli.typed import same_command
from glasshouse.errors import GlasshouseError, StudyError

if TYPE_CHECKING:
    from glasshouse.cli.screen import Say

Quiet = Annotated[bool, typer.Option("--quiet", help="show no progress")]
Log = Annotated[Path | None, typer.Option(help="add progress, warnings and the end to this file, with their times")]


@contextmanager
def logged(path: Path | None) -> Iterator[Say | None]:
    """A log that begins with the command and says how it ended; warnings of all rooms go there too."""
    if path is None:
        yield None
        return
    handler = _opened(path)

    def say(line: str) -> None:
        handler.handle(logging.makeLogRecord({"msg": line}))

    rooms = logging.getLogger("glasshouse")
    rooms.addHandler(handler)
    say(same_command())
    try:
        yield say
        say("Ended.")
    except KeyboardInterrupt:
        say("Interrupted.")
        raise
    except BaseException as error:  # of any kind: it is only written down
        say(str(error) if isinstance(error, GlasshouseError) else f"Ended by {type(error).__name__}: {error}")
        raise
    finally:
        rooms.removeHandler(handler)
        handler.close()


class _File(logging.FileHandler):
    """A file that lines are added to; a disk that is full must not end the work for the sake of its log."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's own name
        """Go on without the line."""

    def close(self) -> None:
        """Close the file, with what it could take."""
        with suppress(OSError):
            super().close()


def _opened(path: Path) -> logging.Handler:
    """A file that lines are added to, each with its time."""
    try:
        handler = _File(path, encoding="utf-8")
    except OSError as error:
        raise StudyError(f"Cannot write {path} ({error.strerror}): choose another --log.") from error
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%Y-%m-%d %H:%M:%S"))
    return handler
