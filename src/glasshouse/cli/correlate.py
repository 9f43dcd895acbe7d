"""``glasshouse correlate``: whether metrics rank models and images as people do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glasshouse.cli.words import kind, listed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from glasshouse.studies.voted import Voted


def correlate(
    sources: Annotated[
        list[Path], typer.Argument(metavar="FILE.csv|STUDY...", help="a table of votes and metrics, or studies")
    ],
    metrics: Annotated[
        str | None, typer.Option(help="metrics to hold against people, as a,b,c [default: the known ones]")
    ] = None,
    judge: Annotated[str, typer.Option(help="how votes become judgements: majority, mean or dawid-skene")] = "majority",
    judges: Annotated[
        str | None, typer.Option(help="whose votes in studies: human or classifier [default: people's if any]")
    ] = None,
    forced: Annotated[
        bool, typer.Option("--forced", help='take what people would have chosen where they said "none"')
    ] = False,
    out: Annotated[Path | None, typer.Option(help="directory for correlation.json and the pictures")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print what was found as JSON")] = False,
) -> None:
    """Correlate metrics with people: do they rank models, and tell images apart, as votes do?

    Of studies that people voted on ('annotate serve') the metrics are measured, SemSim among them. A table has a row
    per reconstruction: config (the model), a column that ends in _index (the original), gt_fine (the true class),
    annot1, annot2, ... (the votes: a class, -1 for none, empty for no vote) and one per metric.
    """
    from glasshouse.files import write_atomic

    seen = _found(sources, listed(metrics), judge, judges, forced)
    whose = "people" if seen.kind == "human" else "classifiers"
    text = json.dumps(seen.to_json() | {"judges": whose}, indent=1, allow_nan=False)
    if out is not None:
        from glasshouse.reports.correlation import write_figures

        write_atomic(out / "correlation.json", text.encode())
        write_figures(seen.found, out, whose)
    if as_json:
        print(text)
    else:
        _show(whose, seen, out)


def _found(sources: Sequence[Path], metrics: Sequence[str], judge: str, judges: str | None, forced: bool) -> Voted:
    """What the votes of studies, or of a table, say."""
    from glasshouse.cli.screen import counting
    from glasshouse.errors import SettingError
    from glasshouse.studies import correlation, voted

    if all(source.is_dir() for source in sources):
        with counting("measuring", "metrics") as advance:
            return voted.correlate(
                sources, metrics=metrics, judge=judge, judges=kind(judges), forced=forced, progress=advance
            )
    if len(sources) > 1:
        raise SettingError("Give one table of votes, or any number of studies.")
    if judges is not None:
        raise SettingError("--judges chooses among the votes of studies: a table holds those of people.")
    if forced:
        raise SettingError('--forced reads what was chosen beside "none" in studies: a table holds answers alone.')
    return voted.Voted("human", correlation.correlate(sources[0], metrics=metrics, judge=judge), {})


def _show(whose: str, voted: Voted, out: Path | None) -> None:
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

    console, found = Console(), voted.found
    wide = console.width >= WIDE
    known = f"Metrics against {whose}{' (95 % intervals)' if wide else ''}"
    measured = (cells(one, intervals=wide) for one in found.metrics)
    console.print(fitted(known, COLUMNS, measured, console.width))
    if found.differences:
        first = "First less second, each in the direction in which it leaks (95 % intervals)"
        console.print(fitted(first, DIFFERENCES, map(difference_cells, found.differences), console.width))
    seen = f"What {whose} recognised (95 % intervals over originals)"
    console.print(fitted(seen, MODELS, model_cells(found), console.width))
    for line in (*remarks(found, whose), *voted.remarks()):
        console.print(line, markup=False)
    if not wide:
        console.print(f"The first table has intervals from {WIDE} columns on, in --json and in --out.", markup=False)
    if out is not None:
        console.print(f"Pictures and correlation.json: {out}", markup=False, soft_wrap=True)
