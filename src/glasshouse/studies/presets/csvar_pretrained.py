"""The CSVAR paper's evaluation on CIFAR-10 from published weights: a thousand images teach a fresh network too little.

From fresh weights ShuffleNetV2 names a quarter of CIFAR-10's test images rightly, and who hardly learns has nothing to
give away. MobileNetV2 begins with what ImageNet taught it instead; batch and rate are those of a first try.
"""

from __future__ import annotations

import dataclasses

from glasshouse.studies.federations.plan import Federations
from glasshouse.studies.presets import csvar

MODEL = "mobilenet_v2:stem=imagenet,pretrained=true"
CONTROL = f"{csvar.COLOURS} | {MODEL} | none | augment"


def laptop() -> Federations:
    """A thousand images, three seeds."""
    return dataclasses.replace(
        csvar.laptop(),
        title="CSVAR from published weights, laptop scale",
        datasets=(csvar.COLOURS,),
        models=(MODEL,),
        extra=(CONTROL,),
        single=(),
        brief=(),
        rounds=10,
        batch=16,
        lr=0.01,
        shadow_membership=(),
        watched=(2, 5),
    )


def paper() -> Federations:
    """All images, at twice their size."""
    return dataclasses.replace(
        csvar.paper(),
        title="CSVAR from published weights, all images",
        datasets=(csvar.COLOURS,),
        models=(MODEL,),
        extra=(CONTROL,),
        lr=0.01,
        shadow_membership=(),
    )
