"""The probes of a grid study: planned for the networks that are trained by now, worked on, and kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from glasshouse.store import CaseRecord, Store
from glasshouse.studies.audit import Running
from glasshouse.studies.calibration import public_images
from glasshouse.studies.grid.plan import Grid
from glasshouse.studies.grid.probes import KINDS, Laboratory, Network, Probe, others_of
from glasshouse.studies.grid.targets import Lessons, Target
from glasshouse.studies.materials import Materials
from glasshouse.studies.runner import Summary, one_by_one, singly, work_off
from glasshouse.types import JSON

PUBLIC = 1000  # images of each data set that an attacker holds itself, where there are as many


def laboratory(
    grid: Grid, directory: Path, lessons: Mapping[str, Lessons], materials: Mapping[str, Materials], root: Path | None
) -> Laboratory:
    """All that probes need, drawn so that nobody holds what it must not know."""
    return Laboratory(
        directory,
        lessons,
        {name: others_of(lessons[name], own.images) for name, own in materials.items()},
        {
            name: public_images(name, own, PUBLIC, grid.seed + 1, root=root, trained=lessons[name].training()[0])
            for name, own in materials.items()
        },
    )


def trained(targets: Iterable[Target], records: Iterable[CaseRecord]) -> list[Network]:
    """Every checkpoint of every network that is trained by now."""
    facts = {record.key: record.outcome for record in records if record.state == "done"}
    return [
        Network(target, epoch, facts[target.key()]["weights"][str(epoch)])
        for target in targets
        if target.key() in facts
        for epoch in target.checkpoints
    ]


def probe(
    grid: Grid, store: Store, found: Laboratory, networks: Sequence[Network], running: Running, deadline: float
) -> Summary:
    """Measure what the plan asks for and is not measured yet."""
    probes = [one for name in grid.probes for one in KINDS[name].planned(grid, list(networks), found)]
    store.add_probes((one.key(), one.described()) for one in probes)

    def keep(one: Probe, outcome: JSON) -> None:
        store.finish_probe(one.key(), outcome)

    return work_off(
        singly(probes),
        {record.key for record in store.probes() if record.state == "done"},
        found,
        running.executor(),
        keep=one_by_one(keep),
        fail=store.fail_probe,
        progress=running.probing_progress,
        deadline=deadline,
    )
