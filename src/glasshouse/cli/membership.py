"""``glasshouse audit --membership``: who can tell that an image was in the training data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glasshouse.cli.typed import same_command, typed_options

if TYPE_CHECKING:
    from glasshouse.cli.screen import Watched
    from glasshouse.studies.membership import MembershipResult

HEADS = (
    "attack",
    "defense",
    "query",
    "AUC",
    "TPR@1%",
    "TPR@0.1%",
    "best balanced accuracy",
    "train accuracy",
    "test accuracy",
)
OWN = ("--membership", "--members", "--epochs", "--lr", "--augment")
SHARED = (
    "--model",
    "--weights",
    "--data",
    "--data-root",
    "--download",
    "--size",
    "--images",
    "--defense",
    "--batch",
    "--seed",
    "--minutes",
    "--out",
    "--quiet",
    "--log",
    "--json",
)


def audit_membership(
    settings: dict[str, Any],
    out: Path,
    as_json: bool,
    watched: Watched,
    *,
    root: Path | None,
    download: bool,
    minutes: float | None,
) -> None:
    """Train what is to be attacked, attack it, print what was found and write the report."""
    from glasshouse.errors import SettingError
    from glasshouse.reports.membership import write_membership_report
    from glasshouse.studies.membership import MembershipAudit
    from glasshouse.studies.membership import audit_membership as run

    given = typed_options()
    if "--membership" not in given:
        wrong = [option for option in given if option in OWN]
        raise SettingError(f"{', '.join(wrong)} means nothing without --membership: name an attack, such as lira.")
    foreign = [option for option in given if option not in (*OWN, *SHARED)]
    if foreign:
        raise SettingError(
            f"{', '.join(foreign)} means nothing for membership: with --membership use "
            f"{', '.join((*OWN[1:], *SHARED))}."
        )
    plan = MembershipAudit(**settings)
    with watched() as shown:
        progress = shown.stage("Training", "models")
        result = run(plan, out, root=root, download=download, minutes=minutes, progress=progress)
    page = write_membership_report(result)
    if as_json:
        print(json.dumps(result.to_json(), allow_nan=False))
    else:
        _show(result, page)


def asked(membership: list[str] | None, **own: Any) -> dict[str, Any]:
    """The settings that only a membership audit has, where any is given."""
    found = {name: value for name, value in own.items() if value is not None}
    return {**found, "attacks": tuple(membership)} if membership else found


def _show(result: MembershipResult, page: Path) -> None:
    from rich.console import Console

    from glasshouse.cli.fitting import fitted
    from glasshouse.cli.tables import WIDE
    from glasshouse.reports.membership import cells, missing, verdict, worst

    console = Console()
    wide = console.width >= WIDE
    title = f"{result.facts['members']} members told from {result.facts['others']} others"
    rows = [(row.attack, row.defense, row.query, *cells(row, result, intervals=wide)) for row in result.rows]
    title = f"{title} (95 % intervals)" if wide else title
    console.print(fitted(title, HEADS, rows, console.width, spare=HEADS[:5:-1]))
    promises = sorted({f"{one.defense}: {one.promise}" for one in result.targets if one.promise})
    for line in (*missing(result), *map(verdict, worst(result)), *promises):
        console.print(line, markup=False)
    if result.pending:
        console.print(
            f"{result.pending} models are left to train. To go on:\n  {same_command()}", markup=False, soft_wrap=True
        )
    console.print(f"Report: {page}", markup=False, soft_wrap=True)
