"""A data set that others can use: pictures, votes and a data card, without anybody's name."""

from __future__ import annotations

import json
import secrets
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from glasshouse.errors import StudyError
from glasshouse.files import write_atomic
from glasshouse.store import Kind, Votes
from glasshouse.types import Interval
from glasshouse.votes.agreement import AgreementReport, agreement
from glasshouse.votes.exporters import to_csv, to_json
from glasshouse.votes.lines import Line, lines
from glasshouse.votes.pictures import bare_png, opaque_file

CARD = "README.md"
RESULT_FILE = "audit.json"
UNKNOWN_TERMS = "unknown: ask whoever made the originals"


def release(study: Path, store: Votes, directory: Path, kind: Kind | None = "human") -> Path:
    """Write the data set of a study; the directory must not be there, and appears whole or not at all."""
    if directory.exists():
        raise StudyError(f"{directory} is there already: choose a new directory, or remove it first.")
    table = _without_names(lines(store, kind))
    reports = agreement(store, kind)
    part = directory.parent / f".{secrets.token_hex(8)}.part"
    try:
        table = _with_pictures(table, study, part)
        write_atomic(part / "votes.csv", to_csv(table))
        write_atomic(part / "votes.json", to_json(table))
        write_atomic(part / CARD, card(table, reports, _terms(study)).encode())
        part.rename(directory)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return directory


def _with_pictures(table: Sequence[Line], study: Path, part: Path) -> list[Line]:
    """Write each picture anew, pixels only, and name it in the table; no name of the database becomes a path."""
    written: dict[str | None, str | None] = {None: None}
    for file in sorted({file for line in table for file in (line.image, line.beside) if file is not None}):
        png = bare_png(study, file)
        written[file] = opaque_file(png)
        write_atomic(part / opaque_file(png), png)
    return [replace(line, image=written[line.image], beside=written[line.beside]) for line in table]


def _without_names(table: Sequence[Line]) -> list[Line]:
    """The table with numbers for names: who took part is nobody's business."""
    seats = {one: number for number, one in enumerate(dict.fromkeys((line.kind, line.annotator) for line in table), 1)}
    return [
        line if line.annotator is None else replace(line, annotator=f"{line.kind} {seats[line.kind, line.annotator]}")
        for line in table
    ]


def _terms(study: Path) -> str:
    """The terms of the originals, as the study's results state them."""
    try:
        found = json.loads((study / RESULT_FILE).read_text(encoding="utf-8"))["settings"]["terms"]
    except (OSError, ValueError, KeyError, TypeError):
        return UNKNOWN_TERMS
    return str(found or UNKNOWN_TERMS)


def card(table: Sequence[Line], reports: Sequence[AgreementReport], terms: str) -> str:
    """The data card in Markdown."""
    items = {line.item: line for line in table}.values()
    pictures = {file for line in items for file in (line.image, line.beside) if file is not None}
    conditions = {line.condition for line in items if line.role != "original"}
    kinds = Counter(line.kind for line in table if line.kind is not None)
    return "\n".join(
        [
            "# Votes on reconstructed images",
            "",
            "What people say they see in images that were reconstructed from what training shares.",
            "",
            "| what | how many |",
            "|---|---|",
            f"| items | {len(items)} |",
            *(f"| items, {role} | {count} |" for role, count in sorted(Counter(one.role for one in items).items())),
            f"| conditions (model, defense, attack) | {len(conditions)} |",
            f"| pictures | {len(pictures)} |",
            *(f"| votes, {kind} | {count} |" for kind, count in sorted(kinds.items())),
            *(row for report in reports for row in _figures(report)),
            "",
            *FILES,
            "",
            f"Terms of the originals: {terms}. The same terms hold for what was made from them.",
            "",
        ]
    )


FILES = (
    "`images/` holds pictures under opaque names. `votes.csv` has a line for each vote, `votes.json` the same.",
    'An empty answer beside an annotator is "none of these"; `forced` is what would have been chosen instead.',
    "`recognised` is of the item: more than half of all its votes equal `reference`, the answer that most gave for its",
    "original (basis `original`) or the ground truth (basis `truth`). Annotators are numbered, not named.",
)


def _figures(report: AgreementReport) -> list[str]:
    shown = {
        "recognised": report.recognised,
        "Fleiss' kappa, recognised or not": report.fleiss_kappa,
        "Krippendorff's alpha of the answers": report.krippendorff_alpha,
        "unanimous items": report.unanimous,
    }
    return [f"| {report.task}: {name} (95 % interval) | {_written(value)} |" for name, value in shown.items()]


def _written(value: Interval | None) -> str:
    return "not defined" if value is None else f"{value.mean:.3f} [{value.low:.3f}, {value.high:.3f}]"
