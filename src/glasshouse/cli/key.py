"""``glasshouse key``: secret keys."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

key = typer.Typer(help="Make secret keys.", no_args_is_help=True, rich_markup_mode=None)


@key.command()
def new(path: Annotated[Path, typer.Argument(help="file to write, which must not be there")]) -> None:
    """Write a fresh key that only you may read."""
    from glasshouse.collection import new_key

    new_key(path)
    print(f"Key: {path} (keep it: without it nothing can be restored)")


@key.callback()
def _group() -> None:
    """Make secret keys."""
