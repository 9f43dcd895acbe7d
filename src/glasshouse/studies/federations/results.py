"""What a study of federations found: ``study.json``, and the same as lines of a table."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from glasshouse.errors import StudyError
from glasshouse.files import write_atomic
from glasshouse.functional.roc import METRICS
from glasshouse.store import CaseRecord
from glasshouse.studies.federations.plan import Federations
from glasshouse.studies.federations.targets import Target
from glasshouse.studies.grid.results import RESULT_FILE, read_document
from glasshouse.types import JSON
from glasshouse.versions import versions

SCHEMA = 3  # 2 had no augmentation, no accuracies in watched rounds and no shadow models
FOLDER = "federations"
PARTS = {"schema", "settings", "rows"}
TRAINED = "accuracy on training images"
TESTED = "accuracy on test images"


@dataclass(frozen=True, slots=True)
class Line:
    """One value that was measured of one federation; ``attack`` is empty for accuracies, ``low`` without interval."""

    dataset: str
    model: str
    defense: str
    augment: bool
    seed: int
    round: int
    query: str
    attack: str
    measure: str
    mean: float
    low: float | None
    high: float | None
    images: int | None

    @property
    def setup(self) -> tuple[object, ...]:
        """What lines of several seeds have in common."""
        same = self.dataset, self.model, self.defense, self.augment
        return *same, self.round, self.query, self.attack, self.measure


def gathered(plan: Federations, targets: Sequence[Target], records: Sequence[CaseRecord]) -> JSON:
    """All that is measured, a row for each federation; one that failed says why, and is tried again by the next run."""
    known = {record.key: record for record in records}
    rows = []
    for target in targets:
        rows.append({**target.names(), **_became(known[target.key()])})
    return {"schema": SCHEMA, "settings": {**dataclasses.asdict(plan), "versions": versions()}, "rows": rows}


def _became(record: CaseRecord) -> JSON:
    if record.state == "done":
        return record.outcome
    return {"failed": record.reason} if record.state == "failed" else {"pending": True}


def save(directory: Path, found: JSON) -> None:
    """Write ``study.json`` into the study's directory."""
    write_atomic(directory / RESULT_FILE, json.dumps(found, indent=1, allow_nan=False).encode())


def read_results(directory: Path) -> JSON:
    """Read the machine-readable results of a study of federations."""
    found = read_document(directory)
    if not found.keys() >= PARTS or found["schema"] != SCHEMA:
        raise StudyError(
            f"{directory / RESULT_FILE} holds no study of federations of schema {SCHEMA}: run the study again."
        )
    return found


def finished(results: JSON) -> list[JSON]:
    """The rows of federations that were measured."""
    return [row for row in results["rows"] if "accuracy" in row]


def told(row: JSON) -> JSON:
    """What every attack, those with shadow models among them, told of members after the last round."""
    last = max(row["membership"], key=int)
    return {**row["membership"][last], **row.get("shadowed", {})}


def behind(row: JSON) -> str:
    """What tables call the way in which a federation's clients trained."""
    return f"{row['defense']}, augmented" if row.get("augment") else str(row["defense"])


def lines(directory: Path) -> list[Line]:
    """Every value that was measured, in the order of the plan."""
    return [line for row in finished(read_results(directory)) for line in _lines(row)]


def _lines(row: JSON) -> Iterator[Line]:
    names = row["dataset"], row["model"], row["defense"], row["augment"], row["seed"]
    for number, share in enumerate(row["curve"], start=1):
        if share is not None:
            yield Line(*names, number, "clean", "", "accuracy while training", share, None, None, None)
    last = len(row["curve"])
    watched = {int(number): asked for number, asked in row.get("watched", {}).items() if int(number) < last}
    for number, accuracy in {**watched, last: row["accuracy"]}.items():
        for query, parts in accuracy.items():
            for part, measure in (("train", TRAINED), ("test", TESTED)):
                yield Line(*names, number, query, "", measure, **parts[part])
    for number, asked in {**row["membership"], str(last): told(row)}.items():
        for name, values in asked.items():
            attack, _, query = name.rpartition(", ")
            for metric in METRICS:
                if values[metric] is not None:
                    yield Line(*names, int(number), query, attack, metric, **values[metric])
