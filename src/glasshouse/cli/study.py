"""``glasshouse study``: train and attack every combination of a plan, and make something of the results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from glasshouse.cli.study_run import run

study = typer.Typer(help="Studies of many models, defenses and attacks.", no_args_is_help=True, rich_markup_mode=None)

Directory = Annotated[Path, typer.Argument(help="study directory")]
AsJson = Annotated[bool, typer.Option("--json", help="print what was found as JSON")]


@study.command()
def new(
    directory: Directory,
    preset: Annotated[str, typer.Option(help="plan to begin with; a name that is none lists them")] = "audit",
    scale: Annotated[str, typer.Option(help="laptop or paper")] = "laptop",
) -> None:
    """Write DIR/study.toml, to be edited and then run."""
    from glasshouse.errors import StudyError
    from glasshouse.files import write_atomic
    from glasshouse.studies import presets
    from glasshouse.studies.reading import to_toml
    from glasshouse.studies.study import PLAN_FILE, refuse_foreign

    plan = presets.create(preset, scale)
    file = directory / PLAN_FILE
    if file.exists():
        raise StudyError(f"{file} is there already: edit it, run it ('glasshouse study run'), or use another place.")
    refuse_foreign(directory)
    write_atomic(file, to_toml(plan).encode())
    print(f"Plan: {file}\nEdit it, then run it:\n  glasshouse study run {directory}")


study.command()(run)


@study.command()
def status(directory: Directory, as_json: AsJson = False) -> None:
    """Show how far a study is, also while it runs."""
    from glasshouse.cli.study_kinds import plan_and_kind
    from glasshouse.cli.study_tables import show_status

    plan, kind = plan_and_kind(directory)
    found = kind.status(plan, directory)
    if as_json:
        print(json.dumps(found.to_json(), allow_nan=False))
    else:
        show_status(found)


@study.command()
def export(directory: Directory, file: Annotated[Path, typer.Argument(help="FILE.csv or FILE.parquet")]) -> None:
    """Write a table with one row for each reconstruction, or for each value measured of a federation."""
    from glasshouse.cli.study_kinds import plan_and_kind
    from glasshouse.studies.export import export as write

    _, kind = plan_and_kind(directory)
    table = kind.lines(directory)
    write(table, kind.line, file)
    print(f"{len(table)} rows: {file}")


@study.command()
def report(directory: Directory) -> None:
    """Write DIR/report/index.html from what the study holds."""
    from glasshouse.cli.study_kinds import plan_and_kind

    _, kind = plan_and_kind(directory)
    print(f"Report: {kind.report(directory)}")


@study.command()
def compare(
    first: Annotated[Path, typer.Argument(help="study directory")],
    second: Annotated[Path, typer.Argument(help="another one")],
    as_json: AsJson = False,
) -> None:
    """Show how two studies differ where they share a setup, image by image, or seed by seed for federations."""
    from glasshouse.cli.study_kinds import common_kind
    from glasshouse.studies.grid.comparison import SCHEMA

    kind = common_kind(first, second)
    found = kind.compare(first, second)
    if as_json:
        print(json.dumps({"schema": SCHEMA, "differences": [one.to_json() for one in found]}, allow_nan=False))
    else:
        print(f"First: {first}. Second: {second}.")
        kind.show_differences(found)


@study.callback()
def _group() -> None:
    """Studies of many models, defenses and attacks: plan, run, look, compare."""
