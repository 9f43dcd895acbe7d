"""The tables of a grid study: rows with intervals, shares seen, networks with their accuracy; the same as JSON."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from glasshouse.errors import StudyError
from glasshouse.files import write_atomic
from glasshouse.store import CaseRecord
from glasshouse.studies.grid.meetings import Unfit, told
from glasshouse.studies.grid.plan import FRESH, Grid
from glasshouse.studies.grid.targets import Target
from glasshouse.studies.rows import Failed, Identified, Row, Setup, Spent, interval_json, row_json, setup_json
from glasshouse.studies.table import Table
from glasshouse.types import JSON, finite_or_none
from glasshouse.versions import versions

SCHEMA = 2  # 1 counted as seen what beat the floor by less
RESULT_FILE = "study.json"
UNTRAINED = "fresh"
PARTS = {"schema", "settings", "rows", "floor", "identified", "targets", "failures", "pending", "sources"}


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an attacked network comes from: its recipe, the seed and epochs of its training, and its accuracy.

    ``tested`` is how many images it was asked about, where that was written down.
    """

    recipe: str
    training_seed: int
    epoch: int
    accuracy: float | None
    tested: int | None


@dataclass(frozen=True, slots=True)
class Source:
    """A data set: the terms of its images, and what each had to be told from."""

    dataset: str
    terms: str
    gallery: str
    judges: tuple[str, ...]
    skipped: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TargetRow:
    """One network of the plan: pending, done or failed, with what became of it."""

    target: Target
    state: str
    reason: str | None
    accuracy: dict[str, float]
    tested: int | None
    seconds: float | None

    def to_json(self) -> JSON:
        """The row as plain JSON; the accuracies are by epoch."""
        measured = {"accuracy": self.accuracy, "tested": self.tested, "seconds": self.seconds}
        facts = {"state": self.state, "reason": self.reason, **measured}
        return {**self.target.described(), **facts}


@dataclass(frozen=True, eq=False)
class GridResult:
    """All that a grid study found."""

    directory: Path
    grid: Grid
    origins: dict[tuple[str, str, str], Origin]
    sources: tuple[Source, ...]
    targets: tuple[TargetRow, ...]
    rows: tuple[Row, ...]
    floor: tuple[Row, ...]
    identified: tuple[Identified, ...]
    spent: tuple[Spent, ...]
    failures: tuple[Failed, ...]
    probes: tuple[CaseRecord, ...]
    unfit: tuple[Unfit, ...]
    pending: int
    seconds: float
    versions: dict[str, str] = field(default_factory=versions)

    @property
    def left_out(self) -> tuple[str, ...]:
        """One line for each attack that cannot work on some of the networks."""
        return told(self.grid, self.unfit)

    def origin(self, setup: Setup) -> JSON:
        """Where the network of a setup comes from, as plain JSON."""
        return dataclasses.asdict(self.origins[setup.dataset, setup.model, setup.threat.round])

    def _spent(self, one: Spent) -> JSON:
        costs = {"message_bytes": interval_json(one.message_bytes), "seconds": interval_json(one.seconds)}
        return {**setup_json(one.setup), **self.origin(one.setup), **costs}

    def to_json(self) -> JSON:
        """The machine-readable results: ``study.json``."""
        return {
            "schema": SCHEMA,
            "settings": {**dataclasses.asdict(self.grid), "versions": self.versions},
            "rows": [{**row_json(row), **self.origin(row.setup)} for row in self.rows],
            "floor": [row_json(row) for row in self.floor],
            "identified": [{**one.to_json(), **self.origin(one.setup)} for one in self.identified],
            "spent": [self._spent(one) for one in self.spent],
            "probes": [
                {**one.described, "state": one.state, "reason": one.reason, **one.outcome} for one in self.probes
            ],
            "targets": [one.to_json() for one in self.targets],
            "failures": [
                {**setup_json(one.setup), **self.origin(one.setup), "images": list(one.images), "reason": one.reason}
                for one in self.failures
            ],
            "left_out": list(self.left_out),
            "unfit": [dataclasses.asdict(one) for one in self.unfit],
            "pending": self.pending,
            "seconds": self.seconds,
            "sources": [dataclasses.asdict(one) for one in self.sources],
        }

    def save(self) -> Path:
        """Write ``study.json`` into the study's directory."""
        path = self.directory / RESULT_FILE
        write_atomic(path, json.dumps(self.to_json(), indent=1, allow_nan=False).encode())
        return path


def collect(
    grid: Grid,
    directory: Path,
    tables: Sequence[Table],
    targets: Iterable[Target],
    records: Iterable[CaseRecord],
    probes: Iterable[CaseRecord],
    unfit: tuple[Unfit, ...] = (),
) -> GridResult:
    """Gather the tables of all data sets, and what became of every network and every probe of the plan."""
    found = {record.key: record for record in records}
    rows = tuple(_target_row(target, found[target.key()]) for target in targets)
    return GridResult(
        directory=directory,
        grid=grid,
        origins=_origins(rows),
        sources=tuple(_source(table) for table in tables),
        targets=rows,
        rows=tuple(row for table in tables for row in table.rows()),
        floor=tuple(row for table in tables for row in table.floor()),
        identified=tuple(one for table in tables for one in table.identified()),
        spent=tuple(one for table in tables for one in table.spent()),
        failures=tuple(one for table in tables for one in table.failures()),
        probes=tuple(one for one in probes if one.planned),
        unfit=unfit,
        pending=sum(table.pending() for table in tables),
        seconds=sum(table.seconds() for table in tables),
    )


def _source(table: Table) -> Source:
    own = table.subject
    return Source(own.dataset, own.terms, own.gallery_origin, tuple(table.measures.judges), own.skipped)


def _target_row(target: Target, record: CaseRecord) -> TargetRow:
    outcome = record.outcome if record.state == "done" else {}
    measured = outcome.get("accuracy", {}), outcome.get("tested"), outcome.get("seconds")
    return TargetRow(target, record.state, record.reason, *measured)


def _origins(rows: Sequence[TargetRow]) -> dict[tuple[str, str, str], Origin]:
    """Where every network comes from, by data set, model and round; what is fresh belongs to no recipe."""
    found: dict[tuple[str, str, str], Origin] = {}
    for row in rows:
        target = row.target
        for epoch in target.checkpoints:
            recipe = UNTRAINED if epoch == FRESH else target.recipe
            accuracy = finite_or_none(row.accuracy.get(str(epoch)))
            own = Origin(recipe, target.seed, epoch, accuracy, row.tested)
            found.setdefault((target.dataset, target.model, target.round(epoch)), own)
    return found


def read_results(directory: Path) -> JSON:
    """Read the machine-readable results of a grid study."""
    found = read_document(directory)
    if not found.keys() >= PARTS or found["schema"] != SCHEMA:
        raise StudyError(f"{directory / RESULT_FILE} holds no study of schema {SCHEMA}: run the study again.")
    return found


def read_document(directory: Path) -> JSON:
    """What ``study.json`` of a study holds."""
    path = directory / RESULT_FILE
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise StudyError(f"{directory} holds no {RESULT_FILE}: run 'glasshouse study run {directory}' first.") from None
    except (OSError, ValueError) as error:
        raise StudyError(f"{path} cannot be read ({error}): run the study again.") from error
    if not isinstance(found, dict):
        raise StudyError(f"{path} holds no study: run the study again.")
    return found
