"""The CSV of ``annotate export`` and of a released data set, read back."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, get_args

from glasshouse.errors import DataError, GlasshouseError
from glasshouse.store import Confidence, Item, Kind, Role, Vote
from glasshouse.store.ballots import IDENTITY, check_answers
from glasshouse.votes.bundle import Bundle, Voter, opaque
from glasshouse.votes.judgement import check_answer
from glasshouse.votes.lines import Line
from glasshouse.votes.pictures import take_over
from glasshouse.votes.table import LARGEST_CLASS, read_columns
from glasshouse.votes.tasks import Task, tasks

FORMAT = "a CSV table that 'glasshouse annotate export' wrote"

COLUMNS = tuple(field.name for field in fields(Line))
NEEDED = tuple(field.name for field in fields(Line) if field.default is MISSING)  # what was asked
ASKED = (*NEEDED, "annotator", "answer")


def recognises(path: Path) -> bool:
    """Whether a file begins with our column names; those of a vote but who said what may be missing."""
    return set(ASKED) <= set(first_line(path))


def first_line(path: Path) -> list[str]:
    """The cells of a file's first line, or none where it is no text."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            return next(csv.reader([file.readline(65_536)]), [])
    except (OSError, UnicodeDecodeError, csv.Error):
        return []


def read(path: Path, study: Path) -> Bundle:
    """Read the table; pictures that lie beside it are copied into the study."""
    columns = read_columns(path)
    written = path.stat().st_mtime
    items: dict[str, Item] = {}
    voters: dict[Voter, int] = {}
    votes = []
    for number, cells in enumerate(zip(*columns.values(), strict=True), start=1):
        line = dict.fromkeys(COLUMNS, "") | dict(zip(columns, cells, strict=True))
        try:
            item = items.get(line["item"]) or _item(line, path.parent, study)
            items[line["item"]] = item
            if line["annotator"]:
                voter = Voter(line["annotator"], _one_of("kind", line["kind"] or "human", Kind))
                vote = _vote(line, item, voters.setdefault(voter, len(voters)), written)
                check_answer(vote, item)
                votes.append(vote)
        except (GlasshouseError, ValueError, TypeError) as error:
            raise DataError(f"{path}, row {number}: {error}") from error
    return Bundle(FORMAT, tuple(items.values()), tuple(voters), tuple(votes))


def _item(line: Mapping[str, str], folder: Path, study: Path) -> Item:
    image, beside = _pictures(tasks.create(line["task"]), line, folder, study)
    return Item(
        id=line["item"] if IDENTITY.fullmatch(line["item"]) else opaque(),
        task=line["task"],
        role=_one_of("role", line["role"], Role),
        original=line["original"],
        other=line["other"] or None,
        condition=line["condition"],
        case_key=line["case_key"],
        place=_place(line["place"]),
        image=image,
        beside=beside,
        answers=_answers(line["answers"]),
        truth=line["truth"] or None,
    )


def _pictures(task: Task, line: Mapping[str, str], folder: Path, study: Path) -> tuple[str | None, str | None]:
    """The picture, and the original beside it where the task shows it; half a pair cannot be asked, so it has none."""
    image = take_over(folder, line["image"], study)
    if not task.shows_original:
        return image, None
    beside = take_over(folder, line["beside"], study)
    return (None, None) if image is None or beside is None else (image, beside)


def _answers(written: str) -> tuple[str, ...]:
    try:
        answers = json.loads(written)
    except (ValueError, RecursionError):
        answers = None
    if not isinstance(answers, list) or not all(isinstance(answer, str) for answer in answers):
        raise DataError(f"answers are '{written[:40]}': give a JSON list of texts.")
    check_answers(answers)
    return tuple(answers)


def _vote(line: Mapping[str, str], item: Item, voter: int, written: float) -> Vote:
    return Vote(
        item=item.id,
        annotator=str(voter),
        answer=line["answer"] or None,
        forced=line["forced"] or None,
        confidence=_one_of("confidence", line["confidence"], Confidence) if line["confidence"] else None,
        seconds=_number("seconds", line["seconds"]) if line["seconds"] else None,
        when=_number("when", line["when"]) if line["when"] else written,
        grade=_number("grade", line["grade"]) if line["grade"] else None,
    )


def _one_of(name: str, value: str, choices: Any) -> Any:
    if value not in get_args(choices):
        raise DataError(f"{name} is '{value[:40]}': use one of {', '.join(get_args(choices))}.")
    return value


def _place(value: str) -> int:
    if not (value.isascii() and value.isdigit()) or int(value) >= LARGEST_CLASS:
        raise DataError(f"place is '{value[:40]}': give a whole number from 0.")
    return int(value)


def _number(name: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise DataError(f"{name} is '{value[:40]}': give a finite number.")
    return number
