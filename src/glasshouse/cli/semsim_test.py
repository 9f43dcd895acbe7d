"""``glasshouse semsim evaluate`` and ``ablate``: SemSim held against judges and data that taught it nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from glasshouse.cli.words import kind, listed

if TYPE_CHECKING:
    from glasshouse.types import JSON

Number = TypeVar("Number", int, float)
Studies = Annotated[list[Path], typer.Argument(metavar="STUDY...", help="study directories with votes")]
Backbone = Annotated[
    str | None, typer.Option(help="alexnet, lenet, resnet18, resnet50 or mobilenet_v2 [default: the preset's]")
]
Preset = Annotated[str, typer.Option(help="quick: alexnet; paper: resnet50, triplet loss, lr 0.1, 200 epochs")]
Loss = Annotated[str | None, typer.Option(help="triplet, contrastive or rank [default: the preset's]")]
Epochs = Annotated[int | None, typer.Option(help="passes over the judgements [default: the preset's]")]
Seed = Annotated[int, typer.Option(help="seed of everything random")]
AsJson = Annotated[bool, typer.Option("--json", help="print what was found as JSON")]


def evaluate(
    studies: Studies,
    backbone: Backbone = None,
    preset: Preset = "quick",
    loss: Loss = None,
    epochs: Epochs = None,
    lessons: Annotated[list[Path] | None, typer.Option(help="further study to learn from only; repeatable")] = None,
    axes: Annotated[str | None, typer.Option(help="what is left out, as a,b [default: data set,attack,model]")] = None,
    metrics: Annotated[str | None, typer.Option(help="metrics beside SemSim [default: mse to kid]")] = None,
    judges: Annotated[str | None, typer.Option(help="who tests: human or classifier [default: people, if any]")] = None,
    seed: Seed = 0,
    out: Annotated[Path | None, typer.Option(help="directory for evaluation.json and the pictures")] = None,
    as_json: AsJson = False,
) -> None:
    """Train without each data set, attack and model in turn, and test on what was left out.

    With --out the same command goes on where it was cut short.
    """
    from glasshouse import checks
    from glasshouse.cli.screen import counting
    from glasshouse.errors import DataError
    from glasshouse.metrics import create
    from glasshouse.reports.semsim import EVALUATED, EVALUATION, evaluation_remarks, evaluation_rows, write_evaluation
    from glasshouse.studies import evaluation
    from glasshouse.studies.semsim import Lesson
    from glasshouse.studies.unfinished import question, rows_before
    from glasshouse.studies.voted import METRICS

    chosen = listed(axes) or tuple(evaluation.AXES)
    for axis in chosen:
        checks.one_of("axes", axis, tuple(evaluation.AXES))
    lesson = Lesson.of(preset, backbone, loss=loss, epochs=epochs, seed=seed)
    beside = METRICS if metrics is None else listed(metrics)
    asked: JSON = {}
    before: list[JSON] = []
    with _alone(out), counting("evaluating", "trainings") as advance:
        if out is not None:
            asked = question(
                studies,
                lessons or [],
                lesson,
                schema=evaluation.SCHEMA,
                axes=chosen,
                metrics={name: create(name).edition for name in beside},
                judges=judges,
            )
            before = rows_before(out / EVALUATION, asked, "tests")
        found = evaluation.evaluate(
            studies,
            lesson,
            lessons=lessons or [],
            axes=chosen,
            metrics=beside,
            judges=kind(judges),
            done={(test["axis"], test["left_out"]) for test in before},
            progress=advance,
            keep=(lambda found: None)
            if out is None
            else partial(write_evaluation, folder=out, asked=asked, before=before),
        )
    tests = [*before, *found.to_json()["tests"]]
    if as_json:
        print(json.dumps(found.to_json() | {"tests": tests}, indent=1, allow_nan=False))
    else:
        title = f"Taught by {found.teachers}; tested by {found.testers} (95 % intervals)"
        _show(title, EVALUATED, evaluation_rows(tests), evaluation_remarks(tests))
    if all(test["correlation"] is None for test in tests):
        raise DataError(f"No test could be made. {tests[0]['left_out']}: {tests[0]['failed']}")


def ablate(
    studies: Studies,
    lessons: Annotated[list[Path] | None, typer.Option(help="further study to learn from only; repeatable")] = None,
    leave_out: Annotated[str | None, typer.Option(help="data set to test on [default: the first]")] = None,
    backbone: Backbone = None,
    preset: Preset = "quick",
    loss: Loss = None,
    epochs: Epochs = None,
    sizes: Annotated[str | None, typer.Option(help="numbers of training originals [default: 50 to 800]")] = None,
    backbones: Annotated[str | None, typer.Option(help="backbones to try [default: all]")] = None,
    losses: Annotated[str | None, typer.Option(help="losses to try [default: all]")] = None,
    margins: Annotated[str | None, typer.Option(help="margins to try [default: 0.1 to 2]")] = None,
    originals: Annotated[int | None, typer.Option(help="how many teach all but the sizes [default: all]")] = None,
    seed: Seed = 0,
    out: Annotated[Path | None, typer.Option(help="directory for ablation.json and its picture")] = None,
    as_json: AsJson = False,
) -> None:
    """Try training sizes, backbones, losses and margins, each tested on a data set that was left out.

    With --out the same command goes on where it was cut short, and one with other values adds to it.
    """
    from glasshouse.cli.screen import counting
    from glasshouse.files import write_atomic
    from glasshouse.reports.semsim import ABLATED, ABLATION, ablation_remarks, ablation_rows, draw_ablation
    from glasshouse.studies import ablation
    from glasshouse.studies.semsim import Lesson
    from glasshouse.studies.unfinished import question, rows_before

    usual = ablation.Ranges()
    ranges = ablation.Ranges(
        sizes=usual.sizes if sizes is None else _numbers("sizes", sizes, int, "whole numbers"),
        backbones=usual.backbones if backbones is None else listed(backbones),
        losses=usual.losses if losses is None else listed(losses),
        margins=usual.margins if margins is None else _numbers("margins", margins, float, "numbers"),
        originals=originals,
    )
    lesson = Lesson.of(preset, backbone, loss=loss, epochs=epochs, seed=seed)
    asked: JSON = {}
    rows: list[JSON] = []
    with _alone(out), counting("ablating", "trainings") as advance:
        if out is not None:
            asked = question(
                studies,
                lessons or [],
                lesson,
                schema=ablation.SCHEMA,
                leave_out=leave_out,
                originals=originals,
            )
            rows = rows_before(out / ABLATION, asked, "rows")
        done = {(row["panel"], row["value"]) for row in rows}
        for one in ablation.ablate(
            studies, lesson, lessons=lessons or [], left_out=leave_out, ranges=ranges, done=done, progress=advance
        ):
            rows = ablation.in_panels([*rows, one.to_json()])
            if out is not None:  # what was found stays, whatever becomes of the next training
                write_atomic(out / ABLATION, _ablation(rows, asked=asked).encode())
        if out is not None:
            write_atomic(out / "ablation.png", draw_ablation(rows))
    if as_json:
        print(_ablation(rows))
    else:
        remarks = ablation_remarks(rows)
        there = max(row["originals"] for row in rows)
        if max(ranges.sizes, default=0) > there:
            remarks.append(f"Sizes above {there} were not tried: there are no more originals.")
        _show(f"Tested on {rows[0]['left_out']} (95 % intervals)", ABLATED, ablation_rows(rows), remarks)


def _alone(out: Path | None) -> AbstractContextManager[None]:
    from glasshouse.files import sole_owner

    return nullcontext() if out is None else sole_owner(out)


def _ablation(rows: Sequence[JSON], **more: JSON) -> str:
    from glasshouse.studies.ablation import SCHEMA

    return json.dumps({"schema": SCHEMA, **more, "rows": rows}, indent=1, allow_nan=False)


def _numbers(name: str, text: str, number: Callable[[str], Number], what: str) -> tuple[Number, ...]:
    from glasshouse.errors import SettingError

    try:
        return tuple(number(one) for one in listed(text))
    except ValueError as error:
        raise SettingError(f"{name}={text} is no list of {what}: write a,b,c.") from error


def _show(title: str, heads: Sequence[str], lines: Iterable[Sequence[str]], remarks: Iterable[str]) -> None:
    from rich.console import Console

    from glasshouse.cli.fitting import fitted

    console = Console()
    console.print(fitted(title, heads, lines, console.width))
    for remark in remarks:
        console.print(remark, markup=False)
