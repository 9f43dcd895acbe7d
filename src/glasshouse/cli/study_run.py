"""``glasshouse study run``: train and attack what a plan asks for and is not done yet."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from glasshouse.cli.typed import same_command

if TYPE_CHECKING:
    from glasshouse.studies.audit import Running
    from glasshouse.studies.grid.plan import Grid
    from glasshouse.studies.grid.program import Done
    from glasshouse.studies.runner import RunProgress


def run(
    directory: Annotated[Path, typer.Argument(help="study directory")],
    engine: Annotated[str, typer.Option(help="inline, local worker processes, or ray")] = "local",
    workers: Annotated[int | None, typer.Option(help="worker processes [default: one per core]")] = None,
    minutes: Annotated[float | None, typer.Option(help="stop after this time; the same command goes on")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="say how much there is to do, and do nothing")] = False,
    data_root: Annotated[Path | None, typer.Option(help="where data sets lie [default: $GLASSHOUSE_DATA]")] = None,
    download: Annotated[bool, typer.Option("--download", help="fetch data sets that are not there")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="show no progress")] = False,
    log: Annotated[Path | None, typer.Option(help="write progress as lines to this file")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print the results to standard output as JSON")] = False,
) -> None:
    """Train and attack what the plan DIR/study.toml asks for and is not done yet; the same command goes on."""
    from glasshouse.cli.screen import stages
    from glasshouse.errors import StudyError
    from glasshouse.studies.audit import Running
    from glasshouse.studies.grid.program import carry_out
    from glasshouse.studies.grid.reading import read_plan

    grid = read_plan(directory)
    options: dict[str, Any] = {} if workers is None else {"workers": workers}
    try:
        with _opened(log) as lines, stages(quiet=quiet, log=lines) as shown:
            if dry_run:
                _estimate(grid, Running(**options), shown.stage("Measuring", "parts"), data_root, download, as_json)
                return
            running = Running(
                engine=engine,
                minutes=minutes,
                training_progress=shown.stage("Training", "networks"),
                tuning_progress=shown.stage("Tuning", "attacks"),
                progress=shown.stage("Attacking", "cases"),
                scoring_progress=shown.stage("Scoring", "data sets"),
                **options,
            )
            done = carry_out(grid, directory, running, root=data_root, download=download)
    except KeyboardInterrupt:
        print(f"Interrupted. What is finished is kept in {directory}. To go on:\n  {same_command()}", file=sys.stderr)
        raise typer.Exit(130) from None
    if as_json:
        print(json.dumps(done.result.to_json(), allow_nan=False))
    else:
        _show(done)
    if done.attacking.failed and done.attacking.failed == done.attacking.planned:
        raise StudyError(f"Every case failed. The first: {done.result.failures[0].reason}")


@contextmanager
def _opened(log: Path | None) -> Iterator[TextIO | None]:
    """A file that lines are added to, or nothing where none is asked for."""
    from glasshouse.errors import StudyError

    if log is None:
        yield None
        return
    try:
        file = log.open("a", encoding="utf-8")
    except OSError as error:
        raise StudyError(f"Cannot write {log} ({error.strerror}): choose another --log.") from error
    with file:
        yield file


def _show(done: Done) -> None:
    """Print the tables, what failed, and what is left."""
    from glasshouse.cli.study_tables import show_result

    show_result(done.result)
    left = [
        f"{summary.left} of {summary.planned} {what}"
        for summary, what in ((done.training, "networks"), (done.attacking, "cases"))
        if summary.left
    ]
    if left:
        print(f"Left: {', '.join(left)}. To go on:\n  {same_command()}")


def _estimate(
    grid: Grid, running: Running, progress: RunProgress, root: Path | None, download: bool, as_json: bool
) -> None:
    """Print what a plan will cost."""
    from glasshouse.cli.study_tables import show_estimate
    from glasshouse.studies.grid.estimate import estimate

    found = estimate(grid, running.workers, root=root, download=download, progress=progress)
    if as_json:
        print(json.dumps(found.to_json(), allow_nan=False))
    else:
        show_estimate(found)
