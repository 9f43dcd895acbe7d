"""Tables of trainings take long to make: who asks the same of the same votes goes on where one was cut short."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from glasshouse.errors import StudyError
from glasshouse.studies.judgements import votes_in
from glasshouse.studies.semsim import Lesson
from glasshouse.types import JSON


def question(studies: Sequence[Path], lessons: Sequence[Path], lesson: Lesson, **more: object) -> JSON:
    """All that decides what the rows of a table say, as plain JSON."""
    places = {"studies": studies, "lessons": lessons}
    asked: JSON = {name: [str(one.resolve()) for one in some] for name, some in places.items()}
    asked |= {"votes": votes_in([*studies, *lessons]), "lesson": asdict(lesson)}
    return dict(json.loads(json.dumps(asked | {name: one for name, one in more.items() if one is not None})))


def rows_before(file: Path, asked: JSON, part: str) -> list[JSON]:
    """The rows under ``part`` of a file that whoever asked the same left; that of another question is refused."""
    if not file.exists():
        return []
    try:
        kept = json.loads(file.read_text(encoding="utf-8"))
        rows, other = [dict(row) for row in kept[part]], dict(kept["asked"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StudyError(
            f"{file} cannot be gone on with ({error!r}): move it away, or choose another --out."
        ) from error
    if other != asked:
        differs = ", ".join(name for name in asked | other if other.get(name) != asked.get(name))
        raise StudyError(f"{file} is there already, of one with other {differs}: choose another --out.")
    return rows
