"""``glasshouse semsim``: a metric that learns from judgements, from the judges to the test."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

semsim = typer.Typer(help="Train and use SemSim.", no_args_is_help=True, rich_markup_mode=None)

Studies = Annotated[list[Path], typer.Argument(metavar="STUDY...", help="study directories")]
DataRoot = Annotated[Path | None, typer.Option(help="where data sets lie [default: GLASSHOUSE_DATA]")]


@semsim.command()
def judge(
    studies: Studies,
    eyes: Annotated[str | None, typer.Option(help="networks that look, as a,b,c [default: all five]")] = None,
    data_root: DataRoot = None,
    seed: Annotated[int, typer.Option(help="seed of the judges' training")] = 0,
) -> None:
    """Let classifiers vote on the reconstructions of studies; votes that are there stay."""
    from glasshouse.cli.screen import counting
    from glasshouse.semsim.eyes import EYES
    from glasshouse.studies import judging

    chosen = [name.strip() for name in eyes.split(",") if name.strip()] if eyes else list(EYES)
    for study in studies:
        with counting(f"judging {study.name}", "votes") as advance:
            cast = judging.judge(study, eyes=chosen, root=data_root, seed=seed, progress=advance)
        print(f"{study}: {cast.now} votes of {len(chosen)} classifiers, {cast.before} were there already.")
        for one in judging.skills(study):
            told = f"lineup: {one['reason']}" if one["way"] == "lineup" else "probe"
            right = f", {one['accuracy']['mean']:.0%} of clean images right" if one["accuracy"] else ""
            role = "teaches" if one["teaches"] else "tests"
            print(f"  {one['dataset']} {one['eye']} ({role}): {told}{right}")


@semsim.callback()
def _group() -> None:
    """Train SemSim on judgements, and hold it against those it never saw."""
