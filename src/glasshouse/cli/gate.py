"""``glasshouse gate``: fail a pipeline when too much can be seen."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

Many = Optional[list[str]]  # noqa: UP045 - typer reads it at run time


def gate(
    study: Annotated[Path, typer.Argument(help="study directory")],
    max_recognised: Annotated[
        str | None,
        typer.Option("--max-recognised", "--max-recognized", help="largest share recognised, such as 5%"),
    ] = None,
    max_told: Annotated[str | None, typer.Option(help="largest share told apart from other images, such as 5%")] = None,
    limits: Annotated[Many, typer.Option("--max", help="METRIC=VALUE: most leakage allowed, may be repeated")] = None,
    defense: Annotated[str | None, typer.Option(help="look at this defense only")] = None,
    confident: Annotated[bool, typer.Option("--confident", help="the upper end of the 95 % interval counts")] = False,
) -> None:
    """Exit 0 if a study stays within limits, 1 if not, with one line why.

    A limit on a metric is the most leakage allowed: an upper limit for psnr and ssim, a lower one for mse and lpips.
    The worst setup of the study counts.
    """
    from glasshouse.studies.gate import judge, read_results

    results = read_results(study)
    passed, line = judge(
        results,
        max_recognised=max_recognised,
        max_told=max_told,
        limits=tuple(limits or ()),
        defense=defense,
        confident=confident,
    )
    print(line)
    raise typer.Exit(0 if passed else 1)
