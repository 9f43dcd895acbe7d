"""``glasshouse correlate``: whether metrics rank models and images as people do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from glasshouse.studies.correlation import Correlation


def correlate(
    votes: Annotated[Path, typer.Argument(metavar="FILE.csv", help="table of votes and metric values")],
    metrics: Annotated[
        str | None, typer.Option(help="columns to hold against people, as a,b,c [default: the known metrics]")
    ] = None,
    judge: Annotated[str, typer.Option(help="how votes become judgements: majority, mean or dawid-skene")] = "majority",
    out: Annotated[Path | None, typer.Option(help="directory for correlation.json and the pictures")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print what was found as JSON")] = False,
) -> None:
    """Correlate metrics with people: do they rank models, and tell images apart, as votes do?

    The table has a row per reconstruction: config (the model), a column that ends in _index (the original), gt_fine
    (the true class), annot1, annot2, ... (the votes: a class, -1 for none, empty for no vote) and one per metric.
    """
    from glasshouse.files import write_atomic
    from glasshouse.studies.correlation import correlate as run

    names = [name.strip() for name in (metrics or "").split(",")]
    found = run(votes, metrics=[name for name in names if name], judge=judge)
    text = json.dumps(found.to_json(), indent=1, allow_nan=False)
    if out is not None:
        from glasshouse.reports.correlation import write_figures

        write_atomic(out / "correlation.json", text.encode())
        write_figures(found, out)
    if as_json:
        print(text)
    else:
        _show(found, out)


def _show(found: Correlation, out: Path | None) -> None:
    from rich.console import Console

    from glasshouse.cli.fitting import fitted
    from glasshouse.cli.tables import WIDE
    from glasshouse.reports.correlation import (
        COLUMNS,
        DIFFERENCES,
        MODELS,
        cells,
        difference_cells,
        model_cells,
        remarks,
    )

    console = Console()
    wide = console.width >= WIDE
    known = "Metrics against people (95 % intervals)" if wide else "Metrics against people"
    measured = (cells(one, intervals=wide) for one in found.metrics)
    console.print(fitted(known, COLUMNS, measured, console.width))
    if found.differences:
        first = "First less second, each in the direction in which it leaks (95 % intervals)"
        console.print(fitted(first, DIFFERENCES, map(difference_cells, found.differences), console.width))
    seen = "What people recognised (95 % intervals over originals)"
    console.print(fitted(seen, MODELS, model_cells(found), console.width))
    for line in remarks(found):
        console.print(line, markup=False)
    if out is not None:
        console.print(f"Pictures and correlation.json: {out}", markup=False, soft_wrap=True)
