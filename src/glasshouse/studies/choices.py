"""Choices that a study makes once, by measurement, and keeps: a resumed run gives the same pictures."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

from glasshouse.errors import StudyError
from glasshouse.store.seals import SEAL, sealed, write_sealed
from glasshouse.types import JSON

CHOICES_FILE = "choices.json"
SCHEMA = 1


@dataclass
class Choices:
    """What was chosen: how many images are worked on at once, and the settings of every tuned attack by key.

    ``untuned`` says why cases could not be tuned in this run, by their keys; the next one tries again.
    """

    directory: Path
    together: JSON = field(default_factory=dict)
    tuning: dict[str, JSON] = field(default_factory=dict)
    untuned: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, directory: Path) -> Choices:
        """Those of a study, none yet if it has made none."""
        path = directory / CHOICES_FILE
        if not path.exists():
            return cls(directory)
        try:
            # choices were once written with infinite losses, which JSON has no number for
            found = json.loads(path.read_text(encoding="utf-8"), parse_constant=lambda name: None)
            if found.pop(SEAL, None) not in (None, sealed((found,))):  # those of before have no checksum
                raise StudyError(f"{path} is damaged: delete it, and the choices are made anew.")
            if found["schema"] != SCHEMA:
                raise StudyError(f"{path} has schema {found['schema']}, this Glasshouse reads {SCHEMA}.")
            return cls(directory, found["together"], found["tuning"])
        except (OSError, UnicodeDecodeError, json.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
            raise StudyError(f"{path} is not readable ({error}): delete it, and the choices are made anew.") from error

    def save(self) -> None:
        """Write all choices down."""
        write_sealed(self.directory / CHOICES_FILE, self.to_json())

    def to_json(self) -> JSON:
        """All choices as plain JSON."""
        return {"schema": SCHEMA, "together": self.together, "tuning": self.tuning}
