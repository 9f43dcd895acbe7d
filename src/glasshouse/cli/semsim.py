"""``glasshouse semsim``: a metric that learns from judgements, from the judges to the test."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from glasshouse.cli.semsim_score import score
from glasshouse.cli.semsim_test import Epochs, Loss, Preset, Seed, ablate, evaluate
from glasshouse.cli.words import kind, listed

semsim = typer.Typer(help="Train and use SemSim.", no_args_is_help=True, rich_markup_mode=None)

Studies = Annotated[list[Path], typer.Argument(metavar="STUDY...", help="study directories")]
DataRoot = Annotated[Path | None, typer.Option(help="where data sets lie [default: GLASSHOUSE_DATA]")]

CHANCE = 0.5  # the share of pairs in the right order that guessing brings


@semsim.command()
def judge(
    studies: Studies,
    eyes: Annotated[str | None, typer.Option(help="networks that look, as a,b,c [default: all five]")] = None,
    degraded: Annotated[int, typer.Option(help="degraded copies of each original to judge as well")] = 0,
    data_root: DataRoot = None,
    seed: Annotated[int, typer.Option(help="seed of the judges' training")] = 0,
) -> None:
    """Let classifiers vote on the reconstructions of studies; votes that are there stay."""
    from glasshouse.cli.screen import counting
    from glasshouse.semsim.eyes import EYES
    from glasshouse.studies import judging

    chosen = listed(eyes) or tuple(EYES)
    for study in studies:
        with counting(f"judging {study.name}", "votes") as advance:
            cast = judging.judge(study, eyes=chosen, degraded=degraded, root=data_root, seed=seed, progress=advance)
        print(f"{study}: {cast.now} votes of {len(chosen)} eyes now, {cast.before} pictures were judged already.")
        for one in judging.skills(study):
            right = f", {one['accuracy']['mean']:.0%} of clean images right" if one["accuracy"] else ""
            print(f"  {one['dataset']} {one['eye']} ({'teaches' if one['teaches'] else 'tests'}): {one['way']}{right}")


@semsim.command()
def train(
    studies: Studies,
    out: Annotated[Path, typer.Option(help="file to write, FILE.safetensors; it must not be there")],
    backbone: Annotated[
        str | None, typer.Option(help="alexnet, or trained as a whole: lenet, resnet18, resnet50, mobilenet_v2")
    ] = None,
    pretrained: Annotated[
        bool | None,
        typer.Option("--pretrained/--fresh", help="published weights: of alexnet (default) and mobilenet_v2"),
    ] = None,
    preset: Preset = "quick",
    loss: Loss = None,
    margin: Annotated[float, typer.Option(help="margin of the loss")] = 1.0,
    epochs: Epochs = None,
    lr: Annotated[float | None, typer.Option(help="learning rate [default: the preset's]")] = None,
    judges: Annotated[str | None, typer.Option(help="human or classifier [default: human where people voted]")] = None,
    leave_out: Annotated[list[str] | None, typer.Option(help="data set to leave out; repeatable")] = None,
    seed: Seed = 0,
) -> None:
    """Train SemSim on the judgements of studies, and write it with a plot of how far its probability can be trusted."""
    from glasshouse.cli.screen import PER_CENT, counting
    from glasshouse.errors import SettingError
    from glasshouse.files import sole_user, write_atomic
    from glasshouse.reports.semsim import draw_reliability
    from glasshouse.semsim.files import refuse_taken
    from glasshouse.studies.semsim import Lesson
    from glasshouse.studies.semsim import train as run

    if out.suffix != ".safetensors":
        raise SettingError(f"{out} does not end in .safetensors: weights are written in that format only.")
    picture = out.with_suffix(".png")
    lesson = Lesson.of(preset, backbone, pretrained, loss=loss, margin=margin, epochs=epochs, lr=lr, seed=seed)
    with sole_user(out, "--out"), counting("training", PER_CENT) as advance:
        refuse_taken(out, picture)
        trained = run(
            studies,
            out,
            lesson,
            judges=kind(judges),
            leave_out=leave_out or (),
            progress=lambda share: advance(100 * share, 100),
        )
        fitted = trained.fitted
        write_atomic(picture, draw_reliability(fitted.predicted.numpy(), fitted.judged.numpy(), fitted.owners.numpy()))
    order = "none" if fitted.order is None else f"{fitted.order:.1%}"
    print(f"Judges: {trained.judges}. Data sets: {', '.join(trained.datasets)}.")
    print(
        f"{fitted.guesses} guesses of {fitted.originals} originals, decoys among them; epoch {fitted.epochs} was best: "
        f"{order} of pairs of guesses of held-out originals in the right order."
    )
    if fitted.order is None or not fitted.order.low > CHANCE:
        print(
            f"That may be chance, {CHANCE:.0%}: do not rely on this network. "
            "More originals, or votes that agree better, teach more."
        )
    print(f"Network: {out}; reliability of its probability: {picture}")


semsim.command()(score)
semsim.command()(evaluate)
semsim.command()(ablate)


@semsim.callback()
def _group() -> None:
    """Train SemSim on judgements, and hold it against those it never saw."""
