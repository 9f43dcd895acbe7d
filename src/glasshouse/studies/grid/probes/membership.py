"""Membership: how well a trained network's loss tells its training images from others."""

from __future__ import annotations

import dataclasses
import hashlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import nn

from glasshouse import membership
from glasshouse.errors import DataError
from glasshouse.functional.roc import measure, roc
from glasshouse.membership import Public
from glasshouse.membership.queries import editions, views
from glasshouse.models import own
from glasshouse.studies.grid.plan import FRESH, Grid
from glasshouse.studies.grid.probes.base import Laboratory, Network, Probe
from glasshouse.studies.grid.targets import guard_of
from glasshouse.studies.trained import accuracy_interval
from glasshouse.training import Samples
from glasshouse.types import JSON, Progress

ATTACK = "loss"  # needs no shadow models, so that it costs seconds
FEW = 16  # members, and as many others, of a rehearsal
METRICS = ("auc", "tpr_at_fpr_0.01")


@dataclass(frozen=True, slots=True)
class Membership(Probe):
    """One network, asked about images as they are and, behind a defense of images, about protected ones as well."""

    kind: ClassVar[str] = "membership"
    version: ClassVar[int] = 2  # 1 kept no ROC curve

    dataset: str
    model: str
    recipe: str
    training_seed: int
    epoch: int
    weights: str
    members: str
    others: str
    seed: int
    attack: str = ATTACK

    @classmethod
    def planned(cls, grid: Grid, networks: list[Network], laboratory: Laboratory) -> Iterator[Probe]:
        """One probe for every trained network; one before any training has no members."""
        names = {
            dataset: hashlib.sha256(places.tobytes() + laboratory.lessons[dataset].test_images.tobytes()).hexdigest()
            for dataset, places in laboratory.others.items()
        }
        for one in networks:
            made = one.target
            if one.epoch != FRESH:
                facts = made.dataset, made.model, made.recipe, made.seed, one.epoch, one.weights, made.lessons
                yield cls(*facts, names[made.dataset][:24], grid.seed)

    @property
    def editions(self) -> tuple[int, ...]:
        """Versions of attack, defense and the ways to ask."""
        guard = guard_of(self.recipe)
        return membership.create(self.attack).version, *guard.versions, *editions(guard)

    def measured(self, laboratory: Laboratory, progress: Progress) -> JSON:
        """For each way to ask: AUC, true positives at 1 % false ones, ROC curve, and how often the network is right."""
        others = laboratory.strangers(self.dataset)
        members = laboratory.members(self.dataset)
        if not len(others.images):
            raise DataError(
                f"{self.dataset} has no test images that are neither attacked nor trained on, so nobody can be told "
                "from members: use a data set with a test part of its own, or attack fewer."
            )
        network = laboratory.network(self.model, self.dataset, self.weights)
        asked = {"members": len(members.images), "others": len(others.images)}
        return {"queries": self._answers(network, members, others), "asked": asked}

    def _answers(self, network: nn.Module, members: Samples, others: Samples) -> JSON:
        """What a network gives away, by the way to ask it."""
        attack = membership.create(self.attack)
        rng = torch.Generator().manual_seed(self.seed)
        found = {}
        for query, view in views(guard_of(self.recipe), self.seed).items():
            asked = Public(others.images[:0], others.targets[:0], view=view)
            scores = [
                attack(network, part.images, part.targets, public=asked, rng=rng).numpy() for part in (members, others)
            ]
            values = {
                "train_accuracy": accuracy_interval(view(network), members),
                "test_accuracy": accuracy_interval(view(network), others),
                **{name: value for name, value in measure(*scores).items() if name in METRICS},
            }
            found[query] = {
                **{name: value and dataclasses.asdict(value) for name, value in values.items()},
                "roc": roc(*scores).to_json(),
            }
        return found

    @property
    def costs_as(self) -> tuple[str, ...]:
        """Who is asked about protected images is asked more often."""
        return self.dataset, self.model, self.recipe

    def rehearsed(self, laboratory: Laboratory) -> float:
        """From a few images and a network that knows nothing."""
        groups = laboratory.members(self.dataset), laboratory.strangers(self.dataset)
        few = [dataclasses.replace(one, images=one.images[:FEW], targets=one.targets[:FEW]) for one in groups]
        network = own.build(self.model, laboratory.lessons[self.dataset].spec, seed=0).eval()
        guarded = guard_of(self.recipe).on_model(network)
        began = time.process_time()
        self._answers(guarded, *few)
        spent = time.process_time() - began
        return spent * sum(len(one.images) for one in groups) / max(sum(len(one.images) for one in few), 1)
