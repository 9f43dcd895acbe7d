"""The page of a grid study: leaderboard, accuracy beside leakage, metrics beside one another, pictures, advice."""

from __future__ import annotations

from pathlib import Path

from markupsafe import Markup

from glasshouse.files import write_atomic
from glasshouse.reports import grid_advice, grid_balance, grid_figures, grid_view
from glasshouse.reports.gallery import FACETS, HEADS, gallery
from glasshouse.reports.page import template
from glasshouse.reports.preview import shuffles
from glasshouse.reports.view import columns
from glasshouse.store import Location
from glasshouse.studies.grid.lines import lines
from glasshouse.studies.grid.results import read_results
from glasshouse.studies.scoring import MARGINS, rule


def write_grid_report(directory: Path) -> Path:
    """Write the page of a grid study, from its directory alone, and return where it is."""
    path = directory / "report" / "index.html"
    write_atomic(path, render(directory).encode())
    return path


def render(directory: Path) -> str:
    """The page as text."""
    results = read_results(directory)
    table = lines(directory)
    album = Location.of(directory).album
    balances = grid_balance.balances(results)
    heads, rows = grid_balance.table(grid_balance.strongest(balances))
    found, metric = grid_view.ordered(table)
    most, least = grid_view.extremes(found)
    return template("grid.html").render(
        results=results,
        settings=results["settings"],
        waiting=sum(target["state"] == "pending" for target in results["targets"]),
        lost=[target for target in results["targets"] if target["state"] == "failed"],
        odd=[probe for probe in results.get("probes", []) if probe["state"] == "failed"],
        head=grid_advice.headline(results),
        advice=grid_advice.advice(results),
        columns=columns(results),
        board=grid_view.leaderboard(results, table),
        tradeoff=Markup(grid_figures.tradeoff(results)),  # noqa: S704 - our own figure, names escaped by Matplotlib
        matrix=Markup(grid_figures.matrix(balances)),  # noqa: S704 - as above
        pareto=Markup(grid_figures.pareto(balances)),  # noqa: S704 - as above
        balance_heads=heads,
        balance_rows=rows if results.get("probes") else [],
        agreement=grid_view.agreement(results),
        metric=metric,
        rule=rule(MARGINS),
        walls=[
            (title, [grid_view.pair(directory, album, line) for line in found])
            for title, found in (("Most recognisable", most), ("Least recognisable", least))
        ],
        gallery=gallery(directory, album, found, paired=results["settings"]["paired"]),
        facets=FACETS,
        facet_heads=HEADS,
        curves=Markup(grid_figures.curves(results)),  # noqa: S704 - as above
        shuffles=shuffles(results["settings"]["defenses"], {line.truth for line in table}, album),
        cards=grid_view.cards(results),
    )
