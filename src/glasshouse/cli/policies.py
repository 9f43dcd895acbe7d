"""``glasshouse policies``: search for transformation policies that hide images and leave enough to learn."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from glasshouse.cli.resuming import resumable
from glasshouse.cli.typed import same_command

if TYPE_CHECKING:
    from glasshouse.studies.policies import Found

Many = Optional[list[str]]  # noqa: UP045 - typer reads it at run time


def policies(
    out: Annotated[Path, typer.Option(help="file to keep the scores in, .json; the same file goes on")],
    model: Annotated[str, typer.Option(help="SPEC or FILE.py:FACTORY")] = "resnet20",
    weights: Annotated[Path | None, typer.Option(help="half-trained weights [default: trained here]")] = None,
    epochs: Annotated[int, typer.Option(help="passes over a tenth of the training images, without --weights")] = 10,
    data: Annotated[str, typer.Option(help="SPEC, FILE.npz or DIRECTORY")] = "photos",
    data_root: Annotated[Path | None, typer.Option(help="where data sets lie [default: $GLASSHOUSE_DATA]")] = None,
    size: Annotated[int | None, typer.Option(help="resize images to this many pixels")] = None,
    candidates: Annotated[int, typer.Option(help="how many random policies to score")] = 64,
    policy: Annotated[Many, typer.Option(help="score this one as well, such as 3-1-7; may be repeated")] = None,
    images: Annotated[int, typer.Option(help="images for the privacy score")] = 8,
    batch: Annotated[int, typer.Option(help="images in a batch for the accuracy score")] = 64,
    batches: Annotated[int, typer.Option(help="batches for the accuracy score")] = 4,
    threshold: Annotated[
        float | None, typer.Option(help="least accuracy score [default: the median of all policies]")
    ] = None,
    keep: Annotated[int, typer.Option(help="how many of the best to show")] = 10,
    seed: Annotated[int, typer.Option(help="seed of everything random")] = 0,
    minutes: Annotated[float | None, typer.Option(help="stop after this time; the same command goes on")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print what was written to the file")] = False,
) -> None:
    """Search for policies of the ats defense: score random ones by privacy and accuracy, without attacking."""
    from glasshouse.cli.screen import counting
    from glasshouse.studies.policies import Search, search

    settings = Search(
        model=model,
        dataset=data,
        size=size,
        weights=None if weights is None else str(weights),
        epochs=epochs,
        images=images,
        batch=batch,
        batches=batches,
        seed=seed,
    )
    with resumable(f"Finished scores are kept in {out}"), counting("Scoring policies", "steps") as advance:
        found = search(
            settings,
            out,
            count=candidates,
            policies=tuple(policy or ()),
            threshold=threshold,
            keep=keep,
            root=data_root,
            minutes=minutes,
            advance=advance,
        )
    if as_json:
        print(out.read_text(encoding="utf-8"), end="")
    else:
        _show(found, out)


def _show(found: Found, out: Path) -> None:
    """Print the best policies, the untransformed images beside them, and what is left."""
    from rich.console import Console
    from rich.table import Table

    from glasshouse.defenses.ats import described

    table = Table(
        title=f"Policies with an accuracy score of at least {found.threshold:.4g}",
        caption="privacy: lower hides more; accuracy: higher leaves more to learn",
    )
    for name in ("policy", "what it does", "privacy", "accuracy"):
        table.add_column(name, overflow="fold")
    for one in found.best:
        table.add_row(one.policy, described(one.policy), f"{one.privacy:.3f}", f"{one.accuracy:.4g}")
    plain = found.plain
    table.add_row(plain.policy, "the images as they are", f"{plain.privacy:.3f}", f"{plain.accuracy:.4g}", style="dim")
    console = Console()
    console.print(table)
    if found.left:
        console.print(f"{found.left} policies are left. To go on:\n  {same_command()}", markup=False, soft_wrap=True)
    if found.best:
        console.print(f"To attack the best: glasshouse audit --defense ats:policy={found.best[0].policy}", markup=False)
    console.print(f"Scores: {out}", markup=False, soft_wrap=True)
