"""Probes: what a study measures of networks and defenses beside attacking gradients, each kept once it is done."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from glasshouse.functional.threads import one_thread
from glasshouse.studies import parcels
from glasshouse.studies.calibration import Public
from glasshouse.studies.grid.plan import Grid
from glasshouse.studies.grid.targets import Lessons, Target, weights_file
from glasshouse.studies.materials import unlike
from glasshouse.studies.networks import trained_network
from glasshouse.training import Samples
from glasshouse.types import JSON, Progress


@dataclass(frozen=True, slots=True)
class Network:
    """One trained network at one checkpoint, and the name of its weights."""

    target: Target
    epoch: int
    weights: str


@dataclass
class Laboratory:
    """Where probes are worked on: it holds images and finds networks, and can be sent to another process.

    Of each data set, ``others`` are places of test images that are neither attacked nor copies of training images,
    and ``public`` the images that an attacker holds itself.
    """

    directory: Path
    lessons: Mapping[str, Lessons]
    others: Mapping[str, np.ndarray]
    public: Mapping[str, Public]
    module: nn.Module | None = None
    files: parcels.Files | None = None

    def packed(self) -> Laboratory:
        """The same laboratory for a machine that cannot read this one's files: it has their contents with it."""
        files = sorted((self.directory / "models").glob("*.safetensors"))
        return dataclasses.replace(self, files=parcels.packed(self.directory, files))

    def network(self, model: str, dataset: str, weights: str) -> nn.Module:
        """A trained network, ready to be asked."""
        name = str(weights_file(self.directory, weights).relative_to(self.directory))
        with parcels.opened(self.directory, self.files, name) as file:
            return trained_network(model, self.lessons[dataset].spec, file).eval()

    def perform(self, probes: Sequence[Probe], progress: Progress) -> list[JSON]:
        """Measure one thing after another on one thread."""
        with one_thread():
            return [probe.measured(self, progress) for probe in probes]

    def members(self, dataset: str) -> Samples:
        """What the networks of a data set were trained on."""
        lessons = self.lessons[dataset]
        return Samples(*lessons.training(), lessons.spec.classes)

    def strangers(self, dataset: str) -> Samples:
        """Test images that no network was trained on and nobody attacks."""
        lessons = self.lessons[dataset]
        images, labels = (part[torch.from_numpy(self.others[dataset])] for part in lessons.testing())
        return Samples(images, labels, lessons.spec.classes)

    def held(self, dataset: str) -> Samples:
        """The images that an attacker holds itself."""
        public = self.public[dataset]
        return Samples(public.images, public.labels, self.lessons[dataset].spec.classes)


class Probe(ABC):
    """One thing to measure; its fields say all that decides the result but for versions of algorithms."""

    kind: ClassVar[str]
    version: ClassVar[int] = 1  # counts changes that change results

    @classmethod
    @abstractmethod
    def planned(cls, grid: Grid, networks: list[Network], laboratory: Laboratory) -> Iterator[Probe]:
        """What a plan asks for, of the networks that are trained by now."""

    @property
    def editions(self) -> tuple[int, ...]:
        """Versions of the algorithms inside."""
        return ()

    @abstractmethod
    def measured(self, laboratory: Laboratory, progress: Progress) -> JSON:
        """Measure it; return what the study keeps."""

    @property
    @abstractmethod
    def costs_as(self) -> tuple[str, ...]:
        """What probes of its kind have in common that take about as long."""

    @abstractmethod
    def rehearsed(self, laboratory: Laboratory) -> float:
        """About how many seconds of a processor it takes, from a part of it; no network needs to be trained."""

    def described(self) -> JSON:
        """The probe as plain JSON."""
        return {"kind": self.kind, **dataclasses.asdict(self)}  # type: ignore[call-overload]

    def key(self) -> str:
        """The content hash under which the result is kept."""
        facts = [self.version, self.editions, self.described()]
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:32]


def others_of(lessons: Lessons, attacked: Tensor) -> np.ndarray:
    """Places of test images that are neither attacked nor trained on."""
    known = {image.tobytes() for image in lessons.images}
    new = np.array([image.tobytes() not in known for image in lessons.test_images])
    return np.flatnonzero(new & np.array(unlike(lessons.testing()[0], attacked)))
