"""CAFE on fourteen variants of a network that it fits, CIFAR-100 (SemSim paper, table 2).

A deviation from the paper, which does not say what its CAFE attacked: CAFE needs a network that is cut over workers.
"""

from __future__ import annotations

from dataclasses import replace

from glasshouse.studies.grid.plan import Grid
from glasshouse.studies.presets import semsim

MODELS = ("vertical:width=8,units=64", "vertical:width=16,units=64")


def laptop() -> Grid:
    """Two widths by seven recipes, each trained twice; batches of eight images; few steps, or all would be seen."""
    return replace(
        semsim.laptop(),
        title="SemSim, CAFE, laptop scale",
        datasets=("cifar100",),
        models=MODELS,
        checkpoints=(10, 13, 15),
        lr=0.03,
        batch=8,
        attacks=("cafe:steps=300",),
    )


def paper() -> Grid:
    """The published counts, for a cluster."""
    return replace(
        semsim.paper(),
        title="SemSim, CAFE, at the published counts",
        models=("vertical", "vertical:width=32"),
        batch=40,
        attacks=("cafe",),
    )
