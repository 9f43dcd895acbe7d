"""Cost: how much longer a training step takes behind a defense."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from typing import ClassVar

from glasshouse.functional.intervals import mean_interval
from glasshouse.studies.grid.plan import Grid
from glasshouse.studies.grid.probes.base import Laboratory, Network, Probe
from glasshouse.studies.grid.targets import Lessons, School, Target
from glasshouse.types import JSON, Progress

SAMPLE = 128  # images of an epoch that is timed
ROUNDS = 5  # pairs of epochs, with and without the defense, each after one that is not timed


@dataclass(frozen=True, slots=True)
class Cost(Probe):
    """One recipe for one network on one data set. Seconds are those of the processor: others may use it as well."""

    kind: ClassVar[str] = "cost"
    version: ClassVar[int] = 2  # 1 counted building the network and writing its weights down

    dataset: str
    model: str
    recipe: str
    batch: int

    @classmethod
    def planned(cls, grid: Grid, networks: list[Network], laboratory: Laboratory) -> Iterator[Probe]:
        """One probe for every recipe, whatever its seed."""
        found = {(one.target.dataset, one.target.model, one.target.recipe, one.target.batch) for one in networks}
        return (cls(*facts) for facts in sorted(found))

    def measured(self, laboratory: Laboratory, progress: Progress) -> JSON:
        """Seconds of a step with and without the defense, and their ratio, round by round."""
        school, targets, steps = self._setting(laboratory, SAMPLE)
        rounds = []
        for number in range(ROUNDS):
            rounds.append([school.epoch_seconds(target) / steps for target in targets])
            progress((number + 1) / ROUNDS)
        measured = {
            "plain_seconds": [one for one, _ in rounds],
            "step_seconds": [two for _, two in rounds],
            "ratio": [two / one for one, two in rounds],
        }
        return {name: dataclasses.asdict(mean_interval(values, within=(0, inf))) for name, values in measured.items()}

    def _setting(self, laboratory: Laboratory, sample: int) -> tuple[School, tuple[Target, Target], int]:
        """A school of some images, the network without and with the defense, and how many steps an epoch has."""
        found = laboratory.lessons[self.dataset]
        images, labels = found.images[:sample], found.labels[:sample]
        school = School({self.dataset: Lessons(found.spec, images, labels, images[:1], labels[:1])})
        batch = min(self.batch, len(labels))
        defended = Target(self.dataset, self.model, self.recipe, 0, 2, (), 1e-3, batch, self.model, found.digest)
        return school, (dataclasses.replace(defended, recipe="none"), defended), -(-len(labels) // batch)

    @property
    def costs_as(self) -> tuple[str, ...]:
        """Each defense takes its own time."""
        return self.dataset, self.model, self.recipe

    def rehearsed(self, laboratory: Laboratory) -> float:
        """From one round of few images."""
        few = SAMPLE // 4
        school, targets, _ = self._setting(laboratory, few)
        began = time.process_time()
        for target in targets:
            school.epoch_seconds(target)
        there = min(SAMPLE, len(laboratory.lessons[self.dataset].labels))
        return (time.process_time() - began) * ROUNDS * there / min(few, there)
