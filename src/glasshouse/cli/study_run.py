"""``glasshouse study run``: do what a plan asks for and is not done yet."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glasshouse.cli.long_work import Log, Quiet, logged
from glasshouse.cli.resuming import resumable
from glasshouse.cli.typed import same_command

if TYPE_CHECKING:
    from glasshouse.cli.screen import Stages
    from glasshouse.studies.audit import Running
    from glasshouse.studies.federations.plan import Federations
    from glasshouse.studies.grid.plan import Grid
    from glasshouse.studies.reading import AnyPlan
    from glasshouse.studies.runner import Summary

#: What is printed when the bars are gone.
Show = Callable[[], None]


def run(
    directory: Annotated[Path, typer.Argument(help="study directory")],
    engine: Annotated[str, typer.Option(help="inline, local worker processes, or ray")] = "local",
    address: Annotated[str, typer.Option(help="with --engine ray: local, auto or ray://HOST:PORT")] = "local",
    workers: Annotated[
        int | None, typer.Option(help="worker processes [default: one per GPU, else one per core]")
    ] = None,
    store: Annotated[
        str | None, typer.Option(help="URL of a database for the results [default: DIR/glasshouse.db]")
    ] = None,
    pictures: Annotated[
        str | None, typer.Option(help="directory or fsspec URL for the pictures [default: DIR/images]")
    ] = None,
    minutes: Annotated[float | None, typer.Option(help="stop after this time; the same command goes on")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="measure for some seconds, say how much there is to do, and begin nothing")
    ] = False,
    data_root: Annotated[Path | None, typer.Option(help="where data sets lie [default: $GLASSHOUSE_DATA]")] = None,
    download: Annotated[bool, typer.Option("--download", help="fetch data sets that are not there")] = False,
    quiet: Quiet = False,
    log: Log = None,
    as_json: Annotated[bool, typer.Option("--json", help="print the results to standard output as JSON")] = False,
) -> None:
    """Train and attack what the plan DIR/study.toml asks for and is not done yet; the same command goes on."""
    from glasshouse.cli.screen import stages
    from glasshouse.studies.audit import Running
    from glasshouse.studies.grid.plan import Grid
    from glasshouse.studies.reading import read_written

    written = read_written(directory)
    plan = written.plan
    options: dict[str, Any] = {} if workers is None else {"workers": workers}
    kept = "Nothing was to be kept" if dry_run else f"What is finished is kept in {directory}"
    with resumable(kept), logged(log) as lines, written.located():
        with stages(quiet=quiet, log=lines) as shown:
            running = Running(
                engine=engine,
                address=address,
                minutes=minutes,
                store=store,
                pictures=pictures,
                training_progress=shown.stage("Training", "networks" if isinstance(plan, Grid) else "federations"),
                probing_progress=shown.stage("Probing", "probes"),
                tuning_progress=shown.stage("Tuning", "attacks"),
                progress=shown.stage("Attacking", "cases"),
                scoring_progress=shown.stage("Scoring", "data sets"),
                **options,
            )
            work = _estimated if dry_run else _carried_out
            show = work(plan, directory, running, shown, data_root, download, as_json)
        show()


def _carried_out(
    plan: AnyPlan,
    directory: Path,
    running: Running,
    shown: Stages,
    root: Path | None,
    download: bool,
    as_json: bool,
) -> Show:
    """Carry a plan of either kind out."""
    from glasshouse.studies.grid.plan import Grid

    if isinstance(plan, Grid):
        return _grid(plan, directory, running, root, download, as_json)
    return _federations(plan, directory, running, root, download, as_json)


def _grid(plan: Grid, directory: Path, running: Running, root: Path | None, download: bool, as_json: bool) -> Show:
    from glasshouse.cli.study_tables import show_result
    from glasshouse.studies.grid.program import carry_out

    done = carry_out(plan, directory, running, root=root, download=download)

    def show() -> None:
        if as_json:
            print(json.dumps(done.result.to_json(), allow_nan=False))
        else:
            show_result(done.result)
            for line in done.result.left_out:
                print(f"Left out: {line}")
            _left((done.training, "networks"), (done.probing, "probes"), (done.attacking, "cases"))
            print(f"Pictures and advice:\n  glasshouse study report {directory}")
        _refuse_futile(done.training, "network", (one.reason for one in done.result.targets if one.reason))
        _refuse_futile(done.probing, "probe", (one.reason for one in done.result.probes if one.reason))
        _refuse_futile(done.attacking, "case", (one.reason for one in done.result.failures))

    return show


def _federations(
    plan: Federations, directory: Path, running: Running, root: Path | None, download: bool, as_json: bool
) -> Show:
    from glasshouse.cli.study_tables import show_federations
    from glasshouse.studies.federations.program import carry_out

    found, summary = carry_out(plan, directory, running, root=root, download=download)

    def show() -> None:
        if as_json:
            print(json.dumps(found, allow_nan=False))
        else:
            show_federations(found)
            _left((summary, "federations"))
            print(f"Curves and advice:\n  glasshouse study report {directory}")
        _refuse_futile(summary, "federation", (row["failed"] for row in found["rows"] if "failed" in row))

    return show


def _refuse_futile(summary: Summary, what: str, reasons: Iterator[str]) -> None:
    """End in an error where nothing came out, whatever was printed before."""
    from glasshouse.errors import StudyError

    if summary.futile:
        raise StudyError(f"Every {what} failed. The first: {next(reasons)}")


def _left(*summaries: tuple[Summary, str]) -> None:
    """Say what another run has to do."""
    left = [f"{summary.left} of {summary.planned} {what}" for summary, what in summaries if summary.left]
    if left:
        print(f"Left: {', '.join(left)}. To go on:\n  {same_command()}")


def _estimated(
    plan: AnyPlan,
    directory: Path,
    running: Running,
    shown: Stages,
    root: Path | None,
    download: bool,
    as_json: bool,
) -> Show:
    """Find out what a plan of either kind will cost, and do nothing."""
    from glasshouse.cli.study_tables import show_estimate, show_federated_estimate
    from glasshouse.studies.federations import estimate as federations
    from glasshouse.studies.grid import estimate as grids
    from glasshouse.studies.grid.plan import Grid

    progress = shown.stage("Measuring", "parts")
    if isinstance(plan, Grid):
        found = grids.estimate(plan, running.workers, root=root, download=download, progress=progress)
        return lambda: print(json.dumps(found.to_json(), allow_nan=False)) if as_json else show_estimate(found)
    cost = federations.estimate(plan, running.workers, root=root, progress=progress)
    return lambda: print(json.dumps(cost.to_json(), allow_nan=False)) if as_json else show_federated_estimate(cost)
