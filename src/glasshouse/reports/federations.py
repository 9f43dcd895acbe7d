"""The page of a study of federations: accuracy, membership, curves, advice, and the choices behind them."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from markupsafe import Markup

from glasshouse.files import write_atomic
from glasshouse.reports import federations_advice, federations_figures, federations_view
from glasshouse.reports.page import template
from glasshouse.studies.federations.plan import Federations
from glasshouse.studies.federations.results import behind, finished, read_results
from glasshouse.types import JSON

#: Settings that a paper on federated learning rarely tells, and that move every number on the page.
OPEN = (
    "clients",
    "rounds",
    "brief",
    "local_epochs",
    "batch",
    "lr",
    "momentum",
    "split",
    "images",
    "test_images",
    "seeds",
    "membership",
    "shadow_membership",
    "watched",
)


def write_federations_report(directory: Path) -> Path:
    """Write the page of a study of federations, from its directory alone, and return where it is."""
    path = directory / "report" / "index.html"
    write_atomic(path, render(directory).encode())
    return path


def render(directory: Path) -> str:
    """The page as text."""
    results = read_results(directory)
    rows = finished(results)
    places = federations_view.places(rows)
    drawn = {
        name: Markup(figure(rows))  # noqa: S704 - our own figures, names escaped by Matplotlib
        for name, figure in federations_figures.FIGURES.items()
    }
    return template("federations.html").render(
        settings=results["settings"],
        versions=results["settings"]["versions"],
        rows=results["rows"],
        head=federations_advice.headline(places),
        advice=federations_advice.advice(places),
        places=places,
        behind=behind,
        number=federations_view.number,
        percent=federations_view.percent,
        figures=drawn,
        choices=choices(results["settings"]),
        promises=sorted({f"{row['defense']}: {row['promise']}" for row in rows if row["promise"]}),
        waiting=sum("pending" in row for row in results["rows"]),
        absent=[(row, one) for row in rows for one in row.get("faults", ())],
        lost=[row for row in results["rows"] if "failed" in row],
    )


def choices(settings: JSON) -> list[tuple[str, str, str]]:
    """What was chosen where papers leave it open: setting, value, meaning."""
    meanings = {field.name: field.metadata["meaning"] for field in dataclasses.fields(Federations)}
    return [(name, _written(settings.get(name)), meanings[name]) for name in OPEN]


def _written(value: object) -> str:
    if value is None:
        return "not set"
    return (", ".join(map(str, value)) or "none") if isinstance(value, list | tuple) else str(value)
