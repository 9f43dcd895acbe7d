"""``glasshouse doctor``: versions, threads, weights and data that were found."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Any

import typer


def doctor(
    data_root: Annotated[Path | None, typer.Option(help="where data sets lie [default: $GLASSHOUSE_DATA]")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Say which versions, threads, weights and data sets this machine has."""
    import torch

    from glasshouse import devices, weights
    from glasshouse.data import data_root as find_root
    from glasshouse.versions import versions

    root = find_root(data_root)
    found: dict[str, Any] = {
        "versions": versions(),
        "threads": {
            "cores": os.cpu_count(),
            "torch": torch.get_num_threads(),
            "gpu": torch.cuda.is_available(),
            "device": str(devices.chosen()),
        },
        "weights": {
            name: weights.where(name) or "missing: run 'glasshouse weights install'" for name in weights.CATALOG
        },
        "cache": str(weights.cache_dir()),
        "data root": str(root) if root else "not set: give --data-root or set GLASSHOUSE_DATA",
        "data": _datasets(root),
    }
    if as_json:
        print(json.dumps(found))
        return
    for part, value in found.items():
        if isinstance(value, dict):
            print(f"{part}:")
            for name, state in value.items():
                print(f"  {name}: {state}")
        else:
            print(f"{part}: {value}")


def _datasets(root: Path | None) -> dict[str, str]:
    """For each known data set, whether it is there."""
    from glasshouse.data import datasets
    from glasshouse.data.official import OfficialDataset

    states = {}
    for name in datasets.names():
        dataset = datasets.create(name)
        if not isinstance(dataset, OfficialDataset):
            states[name] = "embedded"
        elif root is None:
            states[name] = "no data root"
        else:
            there = (root / f"{name}.npz").is_file() or dataset.present(root)
            states[name] = "found" if there else f"missing: wants {name}.npz or {dataset.layout()}"
    return states
