"""Tables of votes for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from glasshouse.cli.fitting import fitted
from glasshouse.cli.tables import WIDE, number
from glasshouse.types import Interval
from glasshouse.votes.agreement import AgreementReport, AnnotatorReport
from glasshouse.votes.status import Status

HEADS = ("annotator", "votes", "recognised", "none", "d'", "bias", "originals", "decoys", "reliability", "seconds")


def show_status(found: Status) -> None:
    """How many items are answered, and who gave how many votes."""
    console = Console()
    counts = found.overview
    table = Table("annotator", "kind", "votes", "of about", title="Votes")
    for one in found.people:
        table.add_row(
            *map(Text, (one.name + (", revoked" if one.revoked else ""), one.kind)), *_counts(one.votes, one.total)
        )
    console.print(table)
    for name, count in found.items.items():
        console.print(f"{name}: {count} items", markup=False)
    console.print(
        f"{counts.complete} of {counts.items} items have their {found.votes_per_item} votes; "
        f"{counts.votes} votes, {counts.votes_last_hour} in the last hour.",
        markup=False,
    )
    if found.missing:
        console.print(f"All items need {found.missing} more annotators: nobody sees two versions of one original.")


def show_agreement(reports: Sequence[AgreementReport]) -> None:
    """Agreement task by task, then a line for each annotator."""
    console = Console()
    wide = console.width >= WIDE
    for report in reports:
        counted = f"{report.items} reconstructed or shuffled images, {report.votes} {report.kind} votes on them"
        title = f"{report.task}: {counted} (below: votes on originals and decoys as well)"
        rows = [_cells(one, wide) for one in report.annotators]
        console.print(fitted(title, HEADS, rows, console.width, spare=HEADS[:2:-1]))
        for name, value in _shares(report):
            console.print(f"{name}: {'not defined' if value is None else number(value, wide=True)}", markup=False)
        bases = ", ".join(f"{count} by {name}" for name, count in sorted(report.bases.items()))
        console.print(f"Reference answers: {bases}", markup=False)
        for one in report.annotators:
            if one.flags:
                console.print(f"Look closer at {one.name}: {'; '.join(one.flags)} (no vote is left out)", markup=False)


def _shares(report: AgreementReport) -> tuple[tuple[str, Interval | None], ...]:
    return (
        ("Recognised items", report.recognised),
        ("Recognised items, forced choice", report.forced_recognised),
        ("Fleiss' kappa of recognised or not", report.fleiss_kappa),
        ("Krippendorff's alpha of the answers", report.krippendorff_alpha),
        ("Unanimous items", report.unanimous),
    )


def _cells(one: AnnotatorReport, wide: bool) -> tuple[str, ...]:
    shares = (one.recognition, one.none, one.d_prime, one.criterion, one.originals, one.decoys)
    plain = (one.reliability, one.median_seconds)
    return (
        one.name,
        str(one.votes),
        *("" if share is None else number(share, wide) for share in shares),
        *("" if value is None else f"{value:.3g}" for value in plain),
    )


def _counts(votes: int, total: int) -> tuple[str, str]:
    return str(votes), str(total)
