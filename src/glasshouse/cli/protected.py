"""``glasshouse audit --protected``: what shuffled images still show to someone without the key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glasshouse.cli.typed import typed_options

if TYPE_CHECKING:
    from glasshouse.cli.screen import Watched
    from glasshouse.studies.protected import ProtectedResult

ALLOWED = ("--images", "--steps", "--seed", "--out", "--quiet", "--log", "--json")


def audit_protected(
    protected: Path | None, gallery: Path | None, settings: dict[str, Any], out: Path, as_json: bool, watched: Watched
) -> None:
    """Attack a protected data set, print what was found and write the report."""
    from glasshouse.cli.screen import PER_CENT
    from glasshouse.errors import SettingError
    from glasshouse.reports.protected import write_protected_report
    from glasshouse.studies.protected import GALLERY, ProtectedAudit
    from glasshouse.studies.protected import audit_protected as run

    if protected is None or gallery is None:
        raise SettingError("--protected and --gallery go together: give the protected directory and the originals.")
    foreign = [option for option in typed_options() if option not in ("--protected", "--gallery", *ALLOWED)]
    if foreign:
        raise SettingError(
            f"{', '.join(foreign)} means nothing for protected images: with --protected use {', '.join(ALLOWED)}."
        )
    plan = ProtectedAudit(**settings, gallery=max(settings.get("images", 0), GALLERY))
    with watched() as shown:
        progress = shown.stage("Attacking", PER_CENT)
        result = run(protected, gallery, out, plan, progress=lambda share: progress(100 * share, 100))
    page = write_protected_report(result)
    if as_json:
        print(json.dumps(result.to_json(), allow_nan=False))
    else:
        _show(result, page)


def _show(result: ProtectedResult, page: Path) -> None:
    from rich.console import Console
    from rich.table import Table

    from glasshouse.cli.fitting import fitted
    from glasshouse.reports.protected import PICTURES, cells, number, pictured, told

    console = Console()
    rows = [(part.name, *cells(part, result)) for part in result.parts if pictured(part)]
    title = "How near the pictures come (mean, 95 % interval)"
    console.print(fitted(title, ("part", *PICTURES), rows, console.width, spare=PICTURES))
    table = Table("method", "right", title=f"Who is who (gallery of {result.facts['gallery']})")
    for part in told(result):
        table.add_row(part.name, number(part.scores["share"], percent=True))
    console.print(table)
    if result.facts["left_out"]:
        shapes = ", ".join(f"{count} of {shape}" for shape, count in result.facts["left_out"].items())
        print(f"Left out, since most of the attacked images have another shape: {shapes}.")
    console.print(f"Report: {page}", markup=False, soft_wrap=True)
