"""The JSON export of Label Studio: tasks with a picture each, annotations with a choice each.

``data`` may name what the picture is: ``original`` (which original it shows), ``condition`` or ``model``, and
``truth``, ``label`` or ``class``. A choice that begins with "none" or "cannot tell" is our "none of these".
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from glasshouse.errors import DataError
from glasshouse.store import Item, Vote
from glasshouse.types import JSON
from glasshouse.votes.bundle import Bundle, Voter, opaque
from glasshouse.votes.pictures import take_over
from glasshouse.votes.table import LARGEST_FILE
from glasshouse.votes.tasks.pair import DIFFERENT, SAME

FORMAT = "a JSON export of Label Studio with choices"

NOTHING = re.compile(r"(none|cannot tell|can't tell)\b.*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Choice:
    voter: str
    answer: str | None
    seconds: float | None
    when: float


def recognises(path: Path) -> bool:
    """Whether a file is a JSON list of tasks with annotations."""
    if not path.is_file() or path.suffix.lower() != ".json":
        return False
    tasks = _load(path)
    return (
        isinstance(tasks, list)
        and bool(tasks)
        and all(
            isinstance(task, dict) and isinstance(task.get("data"), dict) and isinstance(task.get("annotations"), list)
            for task in tasks
        )
    )


def read(path: Path, study: Path) -> Bundle:
    """Read the export; pictures are taken over where they lie beside the file, nothing is fetched."""
    items, votes = [], []
    originals: defaultdict[str, str] = defaultdict(opaque)
    places: dict[str, int] = {}
    voters: dict[Voter, int] = {}
    for number, task in enumerate(_load(path), start=1):
        choices = list(_choices(task, f"{path}, task {number}"))
        item = _item(task["data"], number, choices, path.parent, study)
        places.setdefault(item.original, len(places))
        items.append(replace(item, original=originals[item.original], place=places[item.original]))
        for choice in choices:
            voter = voters.setdefault(Voter(choice.voter), len(voters))
            votes.append(Vote(item.id, str(voter), choice.answer, seconds=choice.seconds, when=choice.when))
    return Bundle(FORMAT, _with_answers(items), tuple(voters), tuple(votes))


def _load(path: Path) -> Any:
    if path.stat().st_size > LARGEST_FILE:
        raise DataError(f"{path} is larger than {LARGEST_FILE:,} bytes: split it.")
    try:
        return json.loads(path.read_text(encoding="utf-8-sig"))
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise DataError(f"{path} is not JSON ({error}): export it anew.") from error


def _choices(task: JSON, where: str) -> Iterator[_Choice]:
    """The choice of each annotation that was not cancelled; pairwise ratings carry no choice and are refused."""
    for annotation in task["annotations"]:
        try:
            if annotation.get("was_cancelled"):
                continue
            chosen = [choice for result in annotation["result"] for choice in result["value"]["choices"] if choice]
            (answer,) = chosen
            yield _Choice(
                voter=_voter(annotation.get("completed_by")),
                answer=None if NOTHING.fullmatch(answer) else answer,
                seconds=None if annotation.get("lead_time") is None else float(annotation["lead_time"]),
                when=_moment(annotation.get("created_at")),
            )
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise DataError(f"{where}: an annotation is not one choice ({error!r}): export single choices.") from error


def _voter(completed_by: Any) -> str:
    person = completed_by.get("email") or completed_by.get("id") if isinstance(completed_by, dict) else completed_by
    return f"label studio {person}"


def _moment(written: str | None) -> float:
    return 0.0 if written is None else datetime.fromisoformat(written).timestamp()


def _item(data: JSON, number: int, choices: list[_Choice], folder: Path, study: Path) -> Item:
    """An item whose original is still called as in the file; pairs come without pictures, as nothing names both."""
    truth = _first(data, "truth", "label", "class")
    answers = {answer for answer in (truth, *(choice.answer for choice in choices)) if answer is not None}
    pair = bool(answers) and answers <= {SAME, DIFFERENT}
    condition = _first(data, "condition", "model") or "label studio"
    return Item(
        id=opaque(),
        task="pair" if pair else "classification",
        role="decoy" if pair and truth == DIFFERENT else "reconstruction",
        original=_first(data, "original") or f"task {number}",
        condition=condition,
        case_key=condition,
        place=number,
        image=None if pair else take_over(folder, _first(data, "image", "reconstruction"), study),
        answers=(SAME, DIFFERENT) if pair else tuple(sorted(answers)),
        truth=truth,
    )


def _first(data: JSON, *names: str) -> str | None:
    return next((str(data[name]) for name in names if data.get(name) not in (None, "")), None)


def _with_answers(items: list[Item]) -> tuple[Item, ...]:
    """The items with the answers of their original: its truth and all that was chosen for any version of it."""
    together: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for item in items:
        together[item.task, item.original] |= set(item.answers)
    return tuple(replace(item, answers=tuple(sorted(together[item.task, item.original]))) for item in items)
