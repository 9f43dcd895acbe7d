"""What a plan of federations will cost: each counted, and a training of every kind timed on a few images."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from glasshouse import data, models
from glasshouse import membership as membership_room
from glasshouse.errors import about
from glasshouse.federated.plan import Federation
from glasshouse.functional.threads import one_thread
from glasshouse.models import own
from glasshouse.registry import complete_spec
from glasshouse.studies.federations.plan import Federations
from glasshouse.studies.grid.targets import Lessons, School
from glasshouse.studies.grid.targets import Target as Trained
from glasshouse.studies.runner import RunProgress
from glasshouse.types import JSON

SAMPLE = 32  # images that a training is timed on
HOUR = 3600


@dataclass(frozen=True, slots=True)
class Estimate:
    """How much there is to do: federations, their shadows, hours on one core, and bytes on disk."""

    federations: int
    shadows: int
    training_hours: float
    disk: int
    workers: int

    @property
    def hours(self) -> float:
        """From beginning to end where so many clients train at once; testing and asking are not in it."""
        return self.training_hours / self.workers

    def to_json(self) -> JSON:
        """The estimate as plain JSON."""
        return {**dataclasses.asdict(self), "hours": self.hours}


def estimate(plan: Federations, workers: int, *, root: Path | None, progress: RunProgress) -> Estimate:
    """Count the federations of a plan and time samples of their training, on one thread as clients have."""
    asked = list(plan.asked())
    kinds = list(dict.fromkeys((one.dataset, one.model, one.defense, one.augment) for one, _ in asked))
    seconds: dict[tuple[object, ...], float] = {}
    weights: dict[tuple[object, ...], int] = {}
    with one_thread():
        for number, kind in enumerate(kinds):
            progress(number, len(kinds))
            first = next(one for one, _ in asked if (one.dataset, one.model, one.defense, one.augment) == kind)
            with about("datasets", first.dataset):
                seconds[kind], weights[kind] = _measured(first, root)
        progress(len(kinds), len(kinds))
    hours, shadows, disk = 0.0, 0, 0
    for one, attacks in asked:
        kind = one.dataset, one.model, one.defense, one.augment
        own_shadows = max((membership_room.create(text).shadow_count for text in attacks), default=0)
        hours += (1 + own_shadows) * seconds[kind] / HOUR
        disk += weights[kind] * (one.rounds + 1 + one.clients + own_shadows)  # of the last round clients' updates too
        shadows += own_shadows
    return Estimate(len(asked), shadows, hours, disk, workers)


def _measured(plan: Federation, root: Path | None) -> tuple[float, int]:
    """Seconds of the processor that a federation trains for, and the bytes of its weights."""
    found = data.load(plan.dataset, root=root, split="train")
    count, nothing = len(found), torch.zeros(0, *found.spec.shape)
    lessons = Lessons.of(plan.dataset, SAMPLE, plan.seed, nothing, root=root, download=False)
    untested = replace(lessons, test_images=lessons.test_images[:1], test_labels=lessons.test_labels[:1])
    school = School({plan.dataset: untested})
    recipe = f"crop/{plan.defense}" if plan.augment else plan.defense
    sample = Trained(
        dataset=plan.dataset,
        model=plan.model,
        recipe=recipe,
        seed=plan.seed,
        epochs=2,
        checkpoints=(2,),
        lr=plan.lr,
        batch=min(plan.batch, SAMPLE),
        architecture=complete_spec(models.models.create(plan.model)),
        lessons=lessons.digest,
    )
    images = min(count, plan.images or count)
    passes = plan.rounds * plan.local_epochs * images / len(lessons.labels)
    return school.epoch_seconds(sample) * passes, len(own.to_weights(own.build(plan.model, lessons.spec, seed=0)))
