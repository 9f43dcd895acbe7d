"""The ``glasshouse`` command: gathers the commands and turns user errors into one line."""

from __future__ import annotations

import logging
import sys
from importlib.metadata import version as installed_version
from typing import Annotated

import typer
import typer.core

from glasshouse.cli.annotate import annotate
from glasshouse.cli.audit import audit
from glasshouse.cli.compare import compare
from glasshouse.cli.correlate import correlate
from glasshouse.cli.doctor import doctor
from glasshouse.cli.federate import federate
from glasshouse.cli.gate import gate
from glasshouse.cli.key import key
from glasshouse.cli.listing import list_names
from glasshouse.cli.policies import policies
from glasshouse.cli.preview import preview
from glasshouse.cli.protect import protect, unprotect
from glasshouse.cli.report import report
from glasshouse.cli.semsim import semsim
from glasshouse.cli.show import show
from glasshouse.cli.study import study
from glasshouse.cli.train import train
from glasshouse.cli.weights import weights
from glasshouse.errors import GlasshouseError

typer.core.HAS_RICH = False  # else [default: x] is escaped for rich's markup although that is off

app = typer.Typer(
    name="glasshouse",
    help="See what your shared gradients reveal of private images, and close the curtains.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(asked: bool) -> None:
    if asked:
        print(installed_version("glasshouse"))
        raise typer.Exit


app.command()(audit)
app.command()(report)
app.command()(gate)
app.command()(train)
app.command()(federate)
app.command()(protect)
app.command()(unprotect)
app.command()(preview)
app.command()(compare)
app.command()(correlate)
app.command()(policies)
app.command("list")(list_names)
app.command()(show)
app.command()(doctor)
app.add_typer(weights, name="weights")
app.add_typer(key, name="key")
app.add_typer(annotate, name="annotate")
app.add_typer(semsim, name="semsim")
app.add_typer(study, name="study")


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", is_eager=True, callback=_version)
    ] = False,
) -> None:
    """See what your shared gradients reveal of private images, and close the curtains."""


def main() -> None:
    """Run the command line; a GlasshouseError is one line and exit code 2, anything else is a bug."""
    logging.basicConfig(level=logging.WARNING, format="glasshouse: %(message)s", stream=sys.stderr)
    try:
        app()
    except GlasshouseError as error:
        print(f"glasshouse: {' '.join(str(error).split())}", file=sys.stderr)
        sys.exit(2)
