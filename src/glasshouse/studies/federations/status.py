"""How far a study of federations is, from what it keeps, also while a run is working on it."""

from __future__ import annotations

from pathlib import Path

from glasshouse.studies.federations.plan import Federations
from glasshouse.studies.grid.status import Count, Status, disk, records


def status(plan: Federations, directory: Path) -> Status:
    """Look at a study; nothing is locked and nothing is written."""
    known, _ = records(directory)
    count = Count.of(known, 0 if known else len(list(plan.federations())))
    failures = tuple(
        (
            ", ".join(str(one.described[name]) for name in ("dataset", "model", "defense", "seed")),
            one.reason or "unknown",
        )
        for one in known
        if one.state == "failed"
    )
    return Status(plan.title, count, None, failures, disk(directory), "federations")
