"""Writing ``report/index.html``: one file that works alone, in light and dark, on screen and paper."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from glasshouse.files import write_atomic
from glasshouse.reports import figures, view
from glasshouse.store import Location
from glasshouse.studies.gate import read_results
from glasshouse.studies.scoring import rule

if TYPE_CHECKING:
    from glasshouse.studies.results import AuditResult


def write_report(study: AuditResult | Path) -> Path:
    """Write the page of a study, from its directory alone, and return where it is."""
    directory = study if isinstance(study, Path) else study.directory
    path = directory / "report" / "index.html"
    write_atomic(path, render(directory).encode())
    return path


def render(directory: Path) -> str:
    """The page as text."""
    results = read_results(directory)
    head, sentences = view.verdict(results)
    worst = view.worst_image(results)
    album = Location.of(directory).album
    return template("report.html").render(
        results=results,
        settings=results["settings"],
        head=head,
        sentences=sentences,
        columns=view.columns(results),
        lines=view.lines(results),
        floor={row["metric"]: view.cell(row) for row in results["floor"]},
        rule=rule(results["margins"]),
        walls=view.walls(results, album),
        scatter=Markup(figures.scatter(results)),  # noqa: S704 - our own figure, names escaped by Matplotlib
        worst=worst,
        worst_truth=view.inline(album, worst["truth"]) if worst else "",
        worst_guess=view.inline(album, worst["guess"]) if worst else "",
    )


def template(name: str) -> Template:
    """A page's template; everything put into it is escaped, and nothing may be missing."""
    environment = Environment(
        loader=PackageLoader("glasshouse.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    return environment.get_template(name)
