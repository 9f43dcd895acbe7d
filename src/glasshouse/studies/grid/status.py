"""How far a grid study is, from its directory alone, also while a run is working on it."""

from __future__ import annotations

import contextlib
import dataclasses
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from glasshouse.store import CaseRecord, Location, Store
from glasshouse.studies.grid.plan import Grid
from glasshouse.studies.grid.targets import spellings_of
from glasshouse.types import JSON


@dataclass(frozen=True, slots=True)
class Count:
    """How many of the things that a plan asks for are done, failed and left."""

    done: int
    failed: int
    left: int

    @classmethod
    def of(cls, records: Sequence[CaseRecord], planned: int) -> Count:
        """Count records; of ``planned`` things those without a record are left."""
        states = Counter(record.state for record in records)
        return cls(states["done"], states["failed"], max(planned, len(records)) - states["done"] - states["failed"])


@dataclass(frozen=True, slots=True)
class Status:
    """How far a study is; cases are counted once every network is trained, until then ``cases`` is None.

    ``unit`` is what is trained: networks or federations, which have no cases.
    """

    title: str
    targets: Count
    probes: Count
    cases: Count | None
    failures: tuple[tuple[str, str], ...]
    disk: int
    unit: str = "networks"

    def to_json(self) -> JSON:
        """The status as plain JSON."""
        return dataclasses.asdict(self)


def status(grid: Grid, directory: Path) -> Status:
    """Look at a study; no result is changed."""
    targets, probes, cases = records(directory)
    repeated = sum(len(spellings_of(one.described)) - 1 for one in targets)
    networks = Count.of(targets, _networks(grid) - repeated)
    named = [
        *((_network(one), one) for one in targets),
        *((_probe(one), one) for one in probes),
        *((_case(one), one) for one in cases),
    ]
    failures = tuple((name, one.reason or "unknown") for name, one in named if one.state == "failed")
    known = Count.of(cases, 0) if cases and not networks.left else None
    return Status(grid.title, networks, Count.of(probes, 0), known, failures, disk(directory))


def disk(directory: Path) -> int:
    """How many bytes a directory holds; files that vanish while a run renames them do not count."""
    total = 0
    for path in directory.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            total += path.stat().st_size if path.is_file() else 0
    return total


def records(directory: Path) -> tuple[list[CaseRecord], ...]:
    """What the store knows of the networks, probes and cases that the plan asks for; nothing before the first run."""
    location = Location.of(directory)
    if not location.exists():
        return [], [], []
    store = Store(location.database)
    try:
        found = store.targets(), store.probes(), store.cases()
    finally:
        store.close()
    return tuple([one for one in records if one.planned] for records in found)


def _networks(grid: Grid) -> int:
    return len(grid.datasets) * sum(len(grid.recipes_of(model)) for model in grid.models) * len(grid.seeds)


def _network(record: CaseRecord) -> str:
    facts = record.described
    return f"{facts['dataset']}, {facts['model']}, {facts['recipe']}, seed {facts['seed']}"


def _probe(record: CaseRecord) -> str:
    facts = record.described
    return f"{facts['kind']}, {facts['dataset']}, {facts.get('recipe') or facts['defense']}"


def _case(record: CaseRecord) -> str:
    facts = record.described
    return f"{facts['dataset']}, {facts['model']}, {facts['round']}, {facts['defense']}, {facts['attack']}"
