"""``glasshouse audit``: attack what a model would share, score what can be seen, write the report."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from glasshouse.cli.federation import audit_federation
from glasshouse.cli.long_work import Log, Quiet, logged
from glasshouse.cli.membership import asked, audit_membership
from glasshouse.cli.protected import audit_protected
from glasshouse.cli.resuming import resumable
from glasshouse.cli.typed import same_command, typed_options

if TYPE_CHECKING:
    from glasshouse.cli.screen import Watched
    from glasshouse.studies.audit import Running
    from glasshouse.studies.plan import Plan
    from glasshouse.studies.results import AuditResult
    from glasshouse.studies.runner import Summary

Many = Optional[list[str]]  # noqa: UP045 - typer reads it at run time


def audit(
    model: Annotated[str | None, typer.Option(help="SPEC or FILE.py:FACTORY [default: lenet]")] = None,
    weights: Annotated[Path | None, typer.Option(help="trained weights: .safetensors or weights-only .pt")] = None,
    fresh: Annotated[bool, typer.Option(help="audit the fresh model beside the trained one")] = True,
    data: Annotated[str | None, typer.Option(help="SPEC, FILE.npz or DIRECTORY [default: photos]")] = None,
    data_root: Annotated[Path | None, typer.Option(help="where data sets lie [default: $GLASSHOUSE_DATA]")] = None,
    download: Annotated[bool, typer.Option("--download", help="fetch the data set if it is not there")] = False,
    size: Annotated[int | None, typer.Option(help="resize images to this many pixels")] = None,
    images: Annotated[int | None, typer.Option(help="how many images to attack [default: 3]")] = None,
    attack: Annotated[Many, typer.Option(help="attack SPEC, may be repeated")] = None,
    defense: Annotated[Many, typer.Option(help="defense SPEC, may be repeated")] = None,
    metric: Annotated[Many, typer.Option(help="metric SPEC, may be repeated")] = None,
    steps: Annotated[int | None, typer.Option(help="steps of every attack that counts steps")] = None,
    batch: Annotated[int | None, typer.Option(help="images behind one shared gradient [default: 1]")] = None,
    bn: Annotated[str | None, typer.Option(help="batch norm of the victim: eval or train [default: both]")] = None,
    public: Annotated[str | None, typer.Option(help="images an attacker may learn from: SPEC, FILE.npz or DIR")] = None,
    labels: Annotated[str | None, typer.Option(help="labels are given or recovered [default: recovered]")] = None,
    local_lr: Annotated[
        float | None, typer.Option(help="clients train locally at this rate and share how their weights moved")
    ] = None,
    local_epochs: Annotated[int | None, typer.Option(help="local passes over the batch [default: 1]")] = None,
    local_batch: Annotated[int | None, typer.Option(help="images per local step [default: all of the batch]")] = None,
    observations: Annotated[int | None, typer.Option(help="messages about the same images [default: 1]")] = None,
    layers: Annotated[Many, typer.Option(help="only parameters of such names are shared, repeatable")] = None,
    statistics: Annotated[
        str | None, typer.Option(help="what is known of batch norm: running, batch or none [default: running]")
    ] = None,
    tune: Annotated[bool, typer.Option("--tune", help="search each attack's settings on public images first")] = False,
    memory: Annotated[float | None, typer.Option(help="gigabytes a worker may use for images at once")] = None,
    seed: Annotated[int | None, typer.Option(help="seed of everything random [default: 0]")] = None,
    engine: Annotated[str, typer.Option(help="inline, or local worker processes")] = "local",
    workers: Annotated[
        int | None, typer.Option(help="worker processes [default: one per GPU, else one per core]")
    ] = None,
    minutes: Annotated[float | None, typer.Option(help="stop after this time; the same command goes on")] = None,
    out: Annotated[Path, typer.Option(help="study directory")] = Path("audit"),
    protected: Annotated[Path | None, typer.Option(help="attack what 'glasshouse protect' wrote instead")] = None,
    gallery: Annotated[Path | None, typer.Option(help="with --protected: folder or FILE.npz with originals")] = None,
    membership: Annotated[Many, typer.Option(help="attack a trained model: who was a member? SPEC, repeatable")] = None,
    members: Annotated[
        str | None, typer.Option(help="with --membership and --weights: how many images it was trained on, or FILE")
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="with --membership: passes over the images [default: 15]")] = None,
    lr: Annotated[float | None, typer.Option(help="with --membership: first learning rate [default: 0.1]")] = None,
    augment: Annotated[
        bool | None, typer.Option(help="with --membership: shift and mirror images [default: with --weights]")
    ] = None,
    federation: Annotated[Path | None, typer.Option(help="attack what 'glasshouse federate' wrote instead")] = None,
    round_number: Annotated[
        int | None, typer.Option("--round", help="with --federation: which round, from 1 [default: the first kept]")
    ] = None,
    clients: Annotated[
        int | None, typer.Option(help="with --federation: most clients whose updates are attacked [default: 2]")
    ] = None,
    quiet: Quiet = False,
    log: Log = None,
    as_json: Annotated[bool, typer.Option("--json", help="print the results to standard output as JSON")] = False,
) -> None:
    """Attack a model's gradients, score what can be seen, and write a report."""
    from glasshouse.cli.screen import stages
    from glasshouse.studies.audit import Running
    from glasshouse.studies.plan import Plan

    chosen = {
        "dataset": data,
        "size": size,
        "images": images,
        "model": model,
        "weights": None if weights is None else str(weights),
        "fresh": None if fresh else False,
        "attacks": tuple(attack) if attack else None,
        "defenses": tuple(defense) if defense else None,
        "metrics": tuple(metric) if metric else None,
        "steps": steps,
        "batch": batch,
        "batchnorm": None if bn is None else (bn,),
        "public": public,
        "labels": labels,
        "local_lr": local_lr,
        "local_epochs": local_epochs,
        "local_batch": local_batch,
        "observations": observations,
        "layers": tuple(layers) if layers else None,
        "statistics": statistics,
        "tune": True if tune else None,
        "memory": memory,
        "seed": seed,
    }
    settings: dict[str, Any] = {name: value for name, value in chosen.items() if value is not None}
    if federation is not None and "--out" not in typed_options():
        out = federation / "audit"
    whole = protected is not None or gallery is not None  # is written when all of it is done
    kept = "Nothing is kept of a linkage that was not finished" if whole else f"What is finished is kept in {out}"
    with resumable(kept), logged(log) as lines:
        watched = partial(stages, quiet=quiet, log=lines)
        if whole:
            audit_protected(protected, gallery, settings, out, as_json, watched)
        elif federation is not None or round_number is not None or clients is not None:
            more = {"round": round_number, "clients": clients, "membership": tuple(membership) if membership else None}
            audit_federation(federation, {**settings, **more}, out, as_json, watched, root=data_root)
        elif own := asked(membership, members=members, epochs=epochs, lr=lr, augment=augment):
            more = {**settings, **own}
            audit_membership(more, out, as_json, watched, root=data_root, download=download, minutes=minutes)
        else:
            extra: dict[str, Any] = {} if workers is None else {"workers": workers}
            running = Running(engine=engine, minutes=minutes, **extra)
            _audit(Plan(**settings), out, running, as_json, watched, root=data_root, download=download)


def _audit(
    plan: Plan, out: Path, running: Running, as_json: bool, watched: Watched, *, root: Path | None, download: bool
) -> None:
    """Attack gradients, print what was found and write the report."""
    from glasshouse.errors import StudyError
    from glasshouse.reports import write_report
    from glasshouse.studies.audit import audit_plan

    with watched() as shown:
        attacking, tuning = shown.stage("Attacking", "cases"), shown.stage("Tuning", "attacks")
        told = replace(running, progress=attacking, tuning_progress=tuning)
        result, summary = audit_plan(plan, out, told, root=root, download=download)
    page = write_report(result)
    if as_json:
        print(json.dumps(result.to_json(), allow_nan=False))
    else:
        _show(result, summary, page)
    if summary.futile:
        raise StudyError(f"Every case failed. The first: {result.failures[0].reason}")


def _show(result: AuditResult, summary: Summary, page: Path) -> None:
    """Print the table, what is missing, and where the report is."""
    from rich.console import Console

    from glasshouse.cli.tables import reasons, result_table

    console = Console()
    console.print(result_table(result, console.width))
    for line in reasons(result):
        console.print(line, style="yellow", markup=False)
    for line in result.skipped:
        console.print(f"skipped {line}", style="yellow", markup=False)
    for failure in result.failures:
        console.print(
            f"failed: {failure.setup.defense}, {failure.setup.attack}: {failure.reason}",
            style="red",
            markup=False,
        )
    if summary.left:
        console.print(
            f"{summary.left} of {summary.planned} cases are left. To go on:\n  {same_command()}",
            markup=False,
            soft_wrap=True,
        )
    console.print(f"Report: {page}", markup=False, soft_wrap=True)
