"""``glasshouse audit --federation``: what the server of a federation could see."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glasshouse.cli.typed import typed_options

if TYPE_CHECKING:
    from rich.console import Console

    from glasshouse.cli.screen import Watched
    from glasshouse.studies.federation import FederationAuditResult
    from glasshouse.studies.forgery import Forgery

ALLOWED = (
    "--round",
    "--clients",
    "--attack",
    "--membership",
    "--metric",
    "--images",
    "--labels",
    "--public",
    "--seed",
    "--data-root",
    "--quiet",
    "--log",
)


def audit_federation(
    directory: Path | None, chosen: dict[str, Any], out: Path, as_json: bool, watched: Watched, *, root: Path | None
) -> None:
    """Attack a round of a federation, print what was found and write the report."""
    from glasshouse.cli.screen import PER_CENT
    from glasshouse.errors import AttackError, SettingError
    from glasshouse.reports.federation_audit import write_federation_audit_report
    from glasshouse.studies.federation import FederationAudit
    from glasshouse.studies.federation import audit_federation as run

    if directory is None:
        raise SettingError("--round and --clients mean nothing without --federation: give a federation's directory.")
    given = typed_options()
    foreign = [option for option in given if option not in ("--federation", "--out", "--json", *ALLOWED)]
    if foreign:
        raise SettingError(
            f"{', '.join(foreign)} means nothing for a federation: with --federation use {', '.join(ALLOWED)}, "
            "--out and --json."
        )
    settings = FederationAudit(**{name: value for name, value in chosen.items() if value is not None})
    with watched() as shown:
        progress = shown.stage("Attacking", PER_CENT)
        result = run(directory, out, settings, root=root, progress=lambda share: progress(100 * share, 100))
    page = write_federation_audit_report(result)
    if as_json:
        print(json.dumps(result.to_json(), allow_nan=False))
    else:
        _show(result, page)
    if not result.rows:
        raise AttackError(f"No attack could be tried. The first: {result.failures[0]}")


def _show(result: FederationAuditResult, page: Path) -> None:
    from rich.console import Console
    from rich.table import Table

    from glasshouse.cli.fitting import fitted
    from glasshouse.reports.federation_audit import asked, cells, columns, home, number, number_of, verdict

    console = Console()
    rows = []
    for row in result.rows:
        rows.append([row.victim, row.attack, *cells(row.values, result), home(row)])
        rows.append(["", "floor: mean color", *cells(row.floor, result), ""])
    title = f"What the server could see in round {number_of(result)} (mean, 95 % interval)"
    heads = ("update of", "attack", *columns(result), "points home")
    floors = range(1, len(rows), 2)
    console.print(fitted(title, heads, rows, console.width, spare=columns(result), dim=floors))
    title = f"Who was in the training data of the global model, as it was after round {number_of(result)}"
    table = Table("attack", "asked with", "AUC", title=title)
    for one in result.told:
        table.add_row(one.attack, asked(one, result), number(one.values["auc"]))
    console.print(table)
    if result.forgery is not None:
        _show_forgery(console, result.forgery)
    console.print(verdict(result), markup=False)
    for line in result.failures:
        console.print(f"failed: {line}", style="red", markup=False)
    console.print(f"Report: {page}", markup=False, soft_wrap=True)


def _show_forgery(console: Console, forgery: Forgery) -> None:
    from glasshouse.cli.fitting import fitted
    from glasshouse.reports.federation_audit import number, percent

    heads = (
        "nearest image by",
        "of the target",
        "of other classes",
        "of the nearest other",
        "rank of the target",
        "floor",
    )
    rows = []
    for text, near in forgery.nearness.items():
        rival = f"{near.rival_name}: {number(near.rival)}"
        rank = f"{near.rank} of {forgery.classes}"
        own = f"{number(forgery.beside.values[text])} against {number(forgery.beside.floor[text])}"
        rows.append([text, number(near.target), number(near.others), rival, rank, own])
    title = f"What an adversary among the clients learned of class {forgery.target}"
    console.print(fitted(title, heads, rows, console.width))
    console.print(
        f"A judge that never met the federation takes {percent(forgery.judged)} of its samples for class "
        f"{forgery.target} ({forgery.chance:.0%} by chance); it is right on {percent(forgery.accuracy)} of the "
        f"clients' images, and on {percent(forgery.accuracy_target)} of those of the class. The image most like it, of "
        f"as many of every class, is one of the class for {percent(forgery.beside.told)} of the samples. The floor is "
        "the mean colour of an image of the class, one for each sample.",
        markup=False,
    )
