"""Weights of trained networks as files of a study, named by the hash of their content."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from glasshouse.files import write_once
from glasshouse.store import CaseRecord, Store
from glasshouse.studies.grid.targets import Target, Trained, is_whole, weights_file, weights_name


def keep(directory: Path, store: Store, target: Target, trained: Trained) -> None:
    """Write the weights first and the target last, so that a target that is there has its weights.

    Networks of one seed are the same before training: what is there is not written again.
    """
    for content in trained.weights.values():
        write_once(weights_file(directory, weights_name(content)), content)
    store.finish_target(target.key(), trained.facts())


def lost(directory: Path, records: Iterable[CaseRecord]) -> list[str]:
    """Keys of trained targets whose weights are missing or damaged."""
    bad = []
    for record in records:
        files = record.outcome.get("weights", {}).values() if record.state == "done" else ()
        if not all(is_whole(weights_file(directory, name)) for name in files):
            bad.append(record.key)
    return bad
