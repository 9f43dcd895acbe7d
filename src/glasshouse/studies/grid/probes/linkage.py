"""Linkage: how many protected images are found in a gallery, or known again in the next epoch's version."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch

from glasshouse import defenses
from glasshouse.attacks.unshuffling import inverse, linker
from glasshouse.attacks.unshuffling.practice import Practice
from glasshouse.studies import shuffled
from glasshouse.studies.grid.plan import Grid
from glasshouse.studies.grid.probes.base import Laboratory, Network, Probe
from glasshouse.studies.shuffled import Budget, Protected, Truth, attack, batch_for, score
from glasshouse.studies.variants import Variant
from glasshouse.training import Samples
from glasshouse.types import JSON, Progress, Stage, no_progress

IMAGES = 200  # protected images that are looked for
GALLERY = 400  # training images among which they are looked for
VERSIONS = 2  # epochs' versions of each: the second is to be known again
STEPS = 200  # of the learned inverse; the linker takes half as many
FEW = (2, 6)  # steps of a rehearsal: the difference is what a step takes
ON_IMAGES = {Stage.IMAGES, Stage.LABELS}


@dataclass(frozen=True, slots=True)
class Linkage(Probe):
    """One defense of images on one data set, whatever network is trained behind it."""

    kind: ClassVar[str] = "linkage"

    dataset: str
    defense: str
    defense_spec: str
    gallery: str
    public: str
    seed: int
    steps: int

    @classmethod
    def planned(cls, grid: Grid, networks: list[Network], laboratory: Laboratory) -> Iterator[Probe]:
        """One probe for every defense that does nothing but change images, and their labels with them."""
        for dataset, lessons in laboratory.lessons.items():
            for text in grid.defenses:
                defense = defenses.create(text)
                if Stage.IMAGES in defense.stages and defense.stages <= ON_IMAGES:
                    public = laboratory.public[dataset].digest
                    yield cls(dataset, text, defense.complete_spec, lessons.digest, public, grid.seed, STEPS)

    @property
    def editions(self) -> tuple[int, ...]:
        """Versions of attack and defense."""
        return shuffled.VERSION, *defenses.create(self.defense).versions

    def measured(self, laboratory: Laboratory, progress: Progress) -> JSON:
        """Every method's share of images found in the gallery, and of versions known again, with intervals."""
        variant = Variant(self.defense, defenses.create(self.defense), None)
        everyone = laboratory.members(self.dataset)
        client = dataclasses.replace(everyone, images=everyone.images[:GALLERY], targets=everyone.targets[:GALLERY])
        held = self._held(variant, client, laboratory.held(self.dataset))
        budget = Budget(
            inverse.Training(steps=self.steps, batch=batch_for(client.images), seed=self.seed),
            linker.Training(steps=max(self.steps // 2, 1), seed=self.seed),
            self.seed,
        )
        count = len(held.versions[0])
        truth = Truth(client.images[:count], torch.arange(count))
        parts = score(truth, held, attack(held, budget, progress=progress), measured=())
        shares = {part.name: dataclasses.asdict(part.scores["share"]) for part in parts if "share" in part.scores}
        return {
            "shares": shares,
            "asked": {"gallery": len(client.images), "public": len(held.practice.public.images)},
        }

    @property
    def costs_as(self) -> tuple[str, ...]:
        """Whatever the defense, networks of the same sizes learn from as many images."""
        return (self.dataset,)

    def rehearsed(self, laboratory: Laboratory) -> float:
        """From a few steps of what is learned, and all the rest."""
        spent = []
        for steps in FEW:
            began = time.process_time()
            dataclasses.replace(self, steps=steps).measured(laboratory, no_progress)
            spent.append(time.process_time() - began)
        return spent[0] + max(spent[1] - spent[0], 0.0) * (self.steps - FEW[0]) / (FEW[1] - FEW[0])

    def _held(self, variant: Variant, client: Samples, public: Samples) -> Protected:
        """What the attacker holds: some protected images, a gallery, and images of its own to practise on."""
        rng = torch.Generator().manual_seed(self.seed)
        defense = variant.defense.with_key(rng)
        versions = [variant.protect(defense.in_epoch(epoch), client, rng) for epoch in range(VERSIONS)]
        return Protected(
            versions=tuple(version[:IMAGES] for version in versions),
            gallery=client.images,
            practice=Practice(public, variant.practised(torch.Generator().manual_seed(self.seed + 1))),
            own_region=variant.region(*client.images.shape[-2:]),
            blocks=False,  # a jigsaw solved would make pictures, not links
        )
