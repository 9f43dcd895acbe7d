"""The bench where a case is worked on: loads its model and images from the study's directory."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from glasshouse import attacks, defenses
from glasshouse.functional.messages import message_bytes
from glasshouse.functional.threads import one_thread
from glasshouse.models.own import load_weights
from glasshouse.store import Carried, ImageRecord, Pictures
from glasshouse.studies import parcels
from glasshouse.studies.assignment import assigned, share_right
from glasshouse.studies.case import Case
from glasshouse.studies.conditions import USUAL, Conditions
from glasshouse.studies.networks import trained_network
from glasshouse.studies.pictures import load_picture, to_pixels
from glasshouse.studies.public import load_public, public_file
from glasshouse.studies.victim import Shared, message, share
from glasshouse.types import Batches, BatchNorm, ImageSpec, Observation, Progress


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a finished case brought: pictures in the order of its images, and facts for the tables."""

    pixels: tuple[np.ndarray, ...]
    objective: float
    snr_db: float
    labels_right: float | None
    seconds: float
    message_bytes: float


@dataclass
class Bench:
    """All a worker needs; it can be sent to another process.

    ``images`` are those of all data sets by their places, ``specs`` what the images of each data set look like.
    ``module`` is a model given as an object; without it the model is built from its SPEC or factory. ``files`` are
    those that came along to a machine without the study's directory.
    """

    directory: Path
    pictures: Pictures
    images: tuple[ImageRecord, ...]
    specs: Mapping[str, ImageSpec]
    module: nn.Module | None = None
    files: parcels.Files | None = None
    _built: dict[tuple[str, str, str], nn.Module] = field(default_factory=dict, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        """Travel without the networks built here, and with the pictures that a worker could not reach by itself."""
        pictures = self.pictures if self.pictures.near else self._carried()
        return {**self.__dict__, "pictures": pictures, "_built": {}}

    def packed(self) -> Self:
        """The same bench for a machine that cannot read this one's files: it has their contents with it."""
        found = [
            file for name in ("models", "public") for file in sorted((self.directory / name).glob("*.safetensors"))
        ]
        return replace(self, pictures=self._carried(), files=parcels.packed(self.directory, found))

    def _carried(self) -> Carried:
        return Carried.of(self.pictures, (image.file for image in self.images))

    def known(self, case: Case) -> Tensor | None:
        """The public images (M, C, H, W) that the attacker of a case learns from."""
        if not case.public:
            return None
        with parcels.opened(self.directory, self.files, public_file(case.public)) as file:
            return load_public(file, case.public)

    def perform(self, cases: Sequence[Case], progress: Progress) -> list[Outcome]:
        """Share, attack, assign: cases of one task from beginning to end, on one thread.

        On one thread every engine gives the same pictures.
        """
        with one_thread():
            return self._perform(cases, progress)

    def _perform(self, cases: Sequence[Case], progress: Progress) -> list[Outcome]:
        began = time.perf_counter()
        first = cases[0]
        attack = attacks.create(first.attack_spec)
        model = defenses.create(first.defense_spec).on_model(self.network(first))
        batches = [self.batch(case.images) for case in cases]
        known = self.known(first)
        shared = [
            self._share(case, model, *batch, attack.batches(len(case.images)), known)
            for case, batch in zip(cases, batches, strict=True)
        ]
        # the same start behind every defense, so that they are compared on equal terms
        seeds = [case.random_seed("attack", "defense_spec", "versions") for case in cases]
        rngs = [torch.Generator().manual_seed(seed) for seed in seeds]
        found = attack.attack_all(model, [one.seen for one in shared], rngs=rngs, progress=progress)
        seconds = (time.perf_counter() - began) / len(cases)
        return [
            Outcome(
                tuple(to_pixels(guess) for guess in assigned(truth, guessed.images)),
                guessed.objective,
                one.snr_db,
                share_right(guessed.labels, labels),
                seconds,
                fmean(message_bytes(sent.tensors.values()) for sent in one.seen.rounds),
            )
            for (truth, labels), one, guessed in zip(batches, shared, found, strict=True)
        ]

    def _share(
        self,
        case: Case,
        model: nn.Module,
        images: Tensor,
        labels: Tensor,
        batches: Batches | None,
        public: Tensor | None,
    ) -> Shared:
        """What the server sees of one case."""
        return share(
            model,
            images,
            labels,
            defenses.create(case.defense_spec),
            image=self.specs[case.dataset],
            batchnorm=case.batchnorm,
            give_labels=case.labels == "given",
            rng=torch.Generator().manual_seed(case.random_seed("defense", "attack_spec", "versions", "public")),
            conditions=case.conditions,
            batches=batches,
            public=public,
        )

    def batch(self, places: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        """The attacked images (N, C, H, W) and labels (N,) at some places."""
        records = [self.images[place] for place in places]
        images = torch.stack([load_picture(self.pictures, one.file, one.sha256) for one in records])
        return images, torch.tensor([one.label for one in records])

    def network(self, case: Case) -> nn.Module:
        """The model of a case with the weights that it names."""
        key = case.dataset, case.architecture, case.weights  # fresh weights of two models may be the same
        if key not in self._built:
            with parcels.opened(self.directory, self.files, f"models/{case.weights}.safetensors") as file:
                model = self._loaded(case, file)
            self._built = {key: model.eval()}  # one at a time: two rounds may share one module
        return self._built[key]

    def _loaded(self, case: Case, weights: Path) -> nn.Module:
        if self.module is None:
            return trained_network(case.model, self.specs[case.dataset], weights)
        load_weights(self.module, weights)
        return self.module


def blank_observation(
    model: nn.Module,
    image: ImageSpec,
    batch: int,
    batchnorm: BatchNorm,
    labels: str,
    conditions: Conditions = USUAL,
    *,
    batches: Batches | None = None,
    public: int | None = None,
) -> Observation:
    """An observation of the right shapes with nothing in it, for an attack to refuse before any work is done.

    ``public`` counts the images that the attacker may learn from; None where it has none.
    """
    nothing = {name: torch.zeros_like(value) for name, value in model.named_parameters() if value.requires_grad}
    return Observation(
        rounds=tuple(message(conditions.shared(nothing), batch, conditions, indices) for indices in batches or (None,))
        * conditions.observations,
        image=image,
        batch_size=batch,
        batchnorm=batchnorm,
        labels=torch.zeros(batch, dtype=torch.long) if labels == "given" else None,
        public=None if public is None else torch.zeros(1).expand(public, *image.shape),
        running_statistics=batchnorm == "eval" or conditions.statistics != "none",
        batch_statistics=() if conditions.statistics == "batch" else None,
    )
