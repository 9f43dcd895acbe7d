"""How far a study of federations is, from what it keeps, also while a run is working on it."""

from __future__ import annotations

from pathlib import Path

from glasshouse.studies.federations.plan import Federations
from glasshouse.studies.federations.results import behind
from glasshouse.studies.grid.status import Count, Status, disk, records
from glasshouse.types import JSON


def status(plan: Federations, directory: Path) -> Status:
    """Look at a study; nothing is locked and nothing is written."""
    known, *_ = records(directory)
    count = Count.of(known, 0 if known else len(list(plan.federations())))
    failures = tuple((_named(one.described), one.reason or "unknown") for one in known if one.state == "failed")
    return Status(plan.title, count, Count(0, 0, 0), None, failures, disk(directory), "federations")


def _named(described: JSON) -> str:
    return f"{described['dataset']}, {described['model']}, {behind(described)}, {described['seed']}"
