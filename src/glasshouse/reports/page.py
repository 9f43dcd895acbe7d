"""Writing ``report/index.html``: one file that works alone, in light and dark, on screen and paper."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from glasshouse.files import write_atomic
from glasshouse.reports import figures, view
from glasshouse.reports.preview import shuffles
from glasshouse.reports.thumbnails import inline
from glasshouse.reports.walls import walls
from glasshouse.store import Location, Store, Votes
from glasshouse.studies.gate import read_results
from glasshouse.studies.scoring import rule
from glasshouse.votes.judgement import Judgement, judge_reconstructions

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
    location = Location.of(directory)
    album, people = location.album, _people(location)
    return template("report.html").render(
        results=results,
        settings=results["settings"],
        head=head,
        sentences=sentences,
        columns=view.columns(results),
        lines=view.lines(results, people),
        floor={row["metric"]: view.cell(row) for row in results["floor"]},
        rule=rule(results["margins"]),
        walls=walls(results, directory, album, people),
        scatter=Markup(figures.scatter(results)),  # noqa: S704 - our own figure, names escaped by Matplotlib
        people=bool(people),
        shuffles=shuffles(results["settings"]["defenses"], (one["file"] for one in results["images"]), album),
        worst=worst,
        worst_truth=inline(album, worst["truth"]) if worst else "",
        worst_guess=inline(album, worst["guess"]) if worst else "",
    )


def _people(location: Location) -> dict[str, Judgement]:
    """What people said of reconstructions, by their files; nothing where the database did not come along."""
    if not location.exists():
        return {}
    store, votes = Store(location.database), Votes(location.database)
    try:
        judged = judge_reconstructions(votes)
        made = store.reconstructions() if judged else []
    finally:
        store.close()
        votes.close()
    keys = ((one.file, (one.case_key, one.place)) for one in made)
    return {file: judged[key] for file, key in keys if key in judged}


def template(name: str) -> Template:
    """A page's template; everything put into it is escaped, and nothing may be missing."""
    environment = Environment(
        loader=PackageLoader("glasshouse.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    environment.filters["breaking"] = breaking
    return environment.get_template(name)


def breaking(text: str) -> Markup:
    """A text, escaped, that may go on in the next line where a SPEC can be broken, which has no blanks."""
    return Markup("<wbr>").join(re.split(r"(?<=[,:/=])", text))
