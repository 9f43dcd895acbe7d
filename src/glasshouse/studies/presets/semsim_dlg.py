"""DLG on fourteen variants of a network that it fits, CIFAR-100 (SemSim paper, table 2).

A deviation from the paper: DLG needs a network without kinks, so that its fourteen models are smooth perceptrons.
"""

from __future__ import annotations

from dataclasses import replace

from glasshouse.studies.grid.plan import Grid
from glasshouse.studies.presets import semsim

#: The sigmoid LeNet of DLG's authors stays at chance on CIFAR-100 in any time that a laptop has; these do not.
MODELS = ("mlp:activation=sigmoid,width=64", "mlp:activation=sigmoid,width=128")


def laptop() -> Grid:
    """Two widths by seven recipes, each trained twice; small steps keep L-BFGS in its valley."""
    return replace(
        semsim.laptop(),
        title="SemSim, DLG, laptop scale",
        datasets=("cifar100",),
        models=MODELS,
        lr=0.1,
        attacks=("dlg:steps=120,lr=0.03,restarts=1",),
    )


def paper() -> Grid:
    """The published counts, for a cluster."""
    return replace(
        semsim.paper(),
        title="SemSim, DLG, at the published counts",
        models=MODELS,
        attacks=("dlg:steps=300",),
    )
