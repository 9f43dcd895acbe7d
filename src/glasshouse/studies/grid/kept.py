"""Weights of trained networks as files of a study, named by the hash of their content."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from glasshouse.files import write_atomic
from glasshouse.store import CaseRecord, Store
from glasshouse.studies.grid.targets import Target, Trained, weights_name


def weights_file(directory: Path, name: str) -> Path:
    """Where weights of that name lie."""
    return directory / "models" / f"{name}.safetensors"


def keep(directory: Path, store: Store, target: Target, trained: Trained) -> None:
    """Write the weights first and the target last, so that a target that is there has its weights."""
    for content in trained.weights.values():
        write_atomic(weights_file(directory, weights_name(content)), content)
    store.finish_target(target.key(), trained.facts())


def lost(directory: Path, records: Iterable[CaseRecord]) -> list[str]:
    """Keys of trained targets whose weights are missing or damaged."""
    bad = []
    for record in records:
        files = record.outcome.get("weights", {}).values() if record.state == "done" else ()
        if not all(_whole(weights_file(directory, name), name) for name in files):
            bad.append(record.key)
    return bad


def _whole(file: Path, name: str) -> bool:
    return file.is_file() and weights_name(file.read_bytes()) == name
