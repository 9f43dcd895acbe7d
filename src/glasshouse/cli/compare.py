"""``glasshouse compare``: image defenses beside one another, under attackers who know them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

DEFAULT = ("none", "csvar", "csvar_exchange", "pixelate:factor=4")


def compare(
    defense: Annotated[
        Optional[list[str]],  # noqa: UP045 - typer reads it at run time
        typer.Option(
            help=f"image defense SPEC, or SPEC@PIXELS to act enlarged; repeat [default: {', '.join(DEFAULT)}]"
        ),
    ] = None,
    data: Annotated[str, typer.Option(help="data set SPEC or FILE.npz")] = "digits",
    data_root: Annotated[Path | None, typer.Option(help="where data sets lie [default: $GLASSHOUSE_DATA]")] = None,
    images: Annotated[int, typer.Option(help="protected test images that are attacked")] = 200,
    gallery: Annotated[int, typer.Option(help="test images among which originals are to be found")] = 1000,
    train: Annotated[int, typer.Option(help="training images, the client's and the attacker's")] = 4000,
    model: Annotated[str, typer.Option(help="classifier SPEC")] = "resnet20:width=8",
    epochs: Annotated[int, typer.Option(help="epochs of the classifier")] = 12,
    batch: Annotated[int, typer.Option(help="images per step of the classifier")] = 64,
    steps: Annotated[int, typer.Option(help="steps of the learned inverse")] = 600,
    versions: Annotated[int, typer.Option(help="versions of each image that the attacker collects")] = 3,
    seed: Annotated[int, typer.Option(help="seed of everything random")] = 0,
    workers: Annotated[int, typer.Option(help="defenses measured at once")] = 1,
    minutes: Annotated[
        float | None, typer.Option(help="begin no more after this time; the same command goes on")
    ] = None,
    out: Annotated[Path, typer.Option(help="directory of the comparison")] = Path("comparison"),
    as_json: Annotated[bool, typer.Option("--json", help="print the rows as JSON")] = False,
) -> None:
    """Compare image defenses: accuracy, and the best that attackers who know them can do without the key."""
    from glasshouse.cli.screen import counting
    from glasshouse.files import write_atomic
    from glasshouse.reports.comparison import draw_tradeoff, worst
    from glasshouse.studies.adaptive import compare as run
    from glasshouse.studies.comparison import Comparison

    chosen = list(defense or DEFAULT)
    plan = Comparison(
        dataset=data,
        images=images,
        gallery=max(gallery, images),
        train=train,
        model=model,
        epochs=epochs,
        batch=batch,
        steps=steps,
        versions=versions,
        seed=seed,
    )
    with counting("Comparing", "defenses") as progress:
        rows = run(plan, chosen, out, root=data_root, workers=workers, minutes=minutes, progress=progress)
    result: dict[str, Any] = {"schema": 2, "rows": rows}
    write_atomic(out / "comparison.json", json.dumps(result, indent=1, allow_nan=False).encode())
    measured = [row for row in rows if "failed" not in row]
    if measured:
        write_atomic(out / "comparison.png", draw_tradeoff(measured))
    if as_json:
        print(json.dumps(result, allow_nan=False))
        return
    _show([worst(row).cells() for row in measured], f"{data}: the worst attack counts (95 % intervals)")
    for row in rows:
        if "failed" in row:
            print(f"failed: {row['variant']}: {row['failed']}")
    left = len(chosen) - len(measured)
    print(f"Left to do: {left}. Run the same command again." if left else f"Picture: {out / 'comparison.png'}")


def _show(rows: list[list[str]], title: str) -> None:
    """Print two tables, pictures first and then who is who: one would be too wide for a screen."""
    from rich.console import Console

    from glasshouse.cli.fitting import fitted
    from glasshouse.reports.comparison import COLUMNS, PICTURED

    console = Console()
    for places in (range(PICTURED), (0, *range(PICTURED, len(COLUMNS)))):
        heads, *chosen = ([cells[place] for place in places] for cells in (COLUMNS, *rows))
        console.print(fitted(title, heads, chosen, console.width))
