"""Networks to attack: each trained by one recipe on one data set, and kept at every checkpoint."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from glasshouse import data, defenses, models
from glasshouse.data import ImageSet
from glasshouse.data.base import Split
from glasshouse.defenses import DefendedClient, Defense
from glasshouse.errors import DataError, SettingError
from glasshouse.functional.threads import one_thread
from glasshouse.models import own
from glasshouse.studies.grid.plan import FRESH, Grid
from glasshouse.studies.materials import unlike
from glasshouse.training import Recipe, accuracy, fit
from glasshouse.types import JSON, ImageSpec, Progress, no_progress

VERSION = 2  # counts changes that change what is trained
CROP = "crop"
SPELLINGS = "spellings"  # of the data set of a network, in the store
FEWEST = 2  # training images
SPLITS: tuple[Split, Split] = ("train", "test")
TESTED = 1000  # test images on which a target's accuracy is measured, at most


@dataclass(frozen=True, slots=True, eq=False)
class Lessons:
    """What targets of one data set are trained on and tested with, as 8-bit images (N, C, H, W) and labels."""

    spec: ImageSpec
    images: np.ndarray
    labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray

    @classmethod
    def of(
        cls, dataset: str, count: int | None, seed: int, attacked: Tensor, *, root: Path | None, download: bool
    ) -> Lessons:
        """Draw images of the training part that are not attacked, spread over the classes, and of the test part."""
        train, test = (data.load(dataset, root=root, split=split, download=download) for split in SPLITS)
        if train.class_names != test.class_names:
            raise DataError(
                f"The training part of {dataset} has other classes than its test part ({train.class_names[0]}, ... and "
                f"{test.class_names[0]}, ...): what is learned from the one says nothing of the other."
            )
        images, labels = _drawn(train, count and count + len(attacked), seed)  # of which so many may be attacked
        new = torch.tensor(unlike(images, attacked)).nonzero().flatten()[:count]
        if len(new) < FEWEST:
            raise DataError(f"{dataset} has {len(new)} training images that are not attacked: attack fewer.")
        tested = _drawn(test, TESTED, seed)
        return cls(train.spec, *(_plain(one) for one in (images[new], labels[new], *tested)))

    @property
    def digest(self) -> str:
        """A hash of what is trained on and tested with."""
        parts = self.images, self.labels, self.test_images, self.test_labels
        return hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()[:24]

    def training(self) -> tuple[Tensor, Tensor]:
        """Images (N, C, H, W) in [0, 1] and labels to train on."""
        return torch.from_numpy(self.images).float() / 255, torch.from_numpy(self.labels)

    def testing(self) -> tuple[Tensor, Tensor]:
        """Images (N, C, H, W) in [0, 1] and labels to test with."""
        return torch.from_numpy(self.test_images).float() / 255, torch.from_numpy(self.test_labels)


def augments(recipe: str) -> bool:
    """Whether a recipe shifts and mirrors images."""
    return recipe.split("/")[0] == CROP


def guard_of(recipe: str) -> Defense:
    """The defense that a recipe trains behind."""
    return defenses.create("/".join(recipe.split("/")[augments(recipe) :]) or "none")


def refuse_idle(recipe: str) -> None:
    """Refuse a recipe that changes nothing while training."""
    guard = guard_of(recipe)
    if guard.idle_in_training:
        raise SettingError(f"Recipe '{recipe}' acts on {guard.acts_on}, not while training: add at=training.")


def _drawn(found: ImageSet, count: int | None, seed: int) -> tuple[Tensor, Tensor]:
    """Some images of a data set, spread over its classes, and their labels."""
    return found.batch(found.spread(min(len(found), count or len(found)), seed))


def _plain(values: Tensor) -> np.ndarray:
    """Labels as they are, images in 8 bits."""
    return ((values * 255).round().to(torch.uint8) if values.is_floating_point() else values).numpy()


@dataclass(frozen=True, slots=True)
class Target:
    """One network to train; ``recipe`` is a defense while training, 'crop/' before it shifts and mirrors images."""

    dataset: str
    model: str
    recipe: str
    seed: int
    epochs: int
    checkpoints: tuple[int, ...]
    lr: float
    batch: int
    architecture: str
    lessons: str

    def key(self) -> str:
        """The content hash under which the network is kept; how data set and recipe are written does not count."""
        spelled = "dataset", "model", "recipe"
        meaning = {name: value for name, value in self.described().items() if name not in spelled}
        facts = [VERSION, meaning, self.augment, self.guard.complete_spec, self.guard.versions]
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:32]

    def described(self) -> JSON:
        """The target as plain JSON."""
        found = dataclasses.asdict(self)
        return {**found, "checkpoints": list(self.checkpoints)}

    @property
    def augment(self) -> bool:
        """Whether images are shifted and mirrored."""
        return augments(self.recipe)

    @property
    def guard(self) -> Defense:
        """The defense while training."""
        return guard_of(self.recipe)

    def round(self, epoch: int) -> str:
        """What tables call the network after so many epochs."""
        return f"{self.recipe}, seed {self.seed}, epoch {epoch}" if epoch else f"fresh, seed {self.seed}"


@dataclass(frozen=True, slots=True, eq=False)
class Trained:
    """A trained target: its weights as files by epoch, how often it is right at each, and how long it took.

    It was asked about ``tested`` images.
    """

    weights: Mapping[int, bytes]
    accuracy: Mapping[int, float]
    tested: int
    loss: float
    seconds: float

    def facts(self) -> JSON:
        """What the store keeps of it; weights are named by the hash of their content."""
        return {
            "weights": {str(epoch): weights_name(content) for epoch, content in self.weights.items()},
            "accuracy": {str(epoch): share for epoch, share in self.accuracy.items()},
            "tested": self.tested,
            "loss": self.loss,
            "seconds": self.seconds,
        }


def weights_name(content: bytes) -> str:
    """The name under which weights lie in a study's directory."""
    return hashlib.sha256(content).hexdigest()[:24]


def weights_file(directory: Path, name: str) -> Path:
    """Where weights of that name lie."""
    return directory / "models" / f"{name}.safetensors"


def is_whole(file: Path) -> bool:
    """Whether a file of weights is there and holds what its name says."""
    return file.is_file() and weights_name(file.read_bytes()) == file.stem


@dataclass
class School:
    """Where targets are trained: holds the images of every data set, and can be sent to another process."""

    lessons: Mapping[str, Lessons]
    module: nn.Module | None = None

    def packed(self) -> School:
        """The same school for another machine: it reads no files."""
        return self

    def perform(self, targets: Sequence[Target], progress: Progress) -> list[Trained]:
        """Train targets one after another on one thread."""
        with one_thread():
            return [self._train(target, progress) for target in targets]

    def seconds(self, target: Target) -> float:
        """How many seconds of the processor a training takes: what else the machine does is not counted."""
        began = time.process_time()
        self.perform([target], no_progress)
        return time.process_time() - began

    def epoch_seconds(self, target: Target) -> float:
        """How many seconds of the processor the last epoch takes: what is prepared before the first is not in it."""
        ends: list[float] = []
        self.perform([target], lambda share: ends.append(time.process_time()))
        return ends[-1] - ends[-2]

    def _train(self, target: Target, progress: Progress) -> Trained:
        began = time.perf_counter()
        lessons = self.lessons[target.dataset]
        images, labels = lessons.training()
        test = lessons.testing()
        recipe = Recipe(
            epochs=target.epochs, batch=target.batch, lr=target.lr, augment=target.augment, seed=target.seed
        )
        expected = min(recipe.batch, len(labels))
        guard = target.guard.for_training(recipe.steps(len(labels)), expected / len(labels), expected)
        network = guard.on_model(own.build(target.model, lessons.spec, seed=target.seed))
        behind = guard.complete_spec if guard.changes_model else None
        weights: dict[int, bytes] = {}
        right: dict[int, float] = {}

        def keep(epoch: int) -> None:
            if epoch in target.checkpoints:
                network.eval()
                weights[epoch] = own.to_weights(network, behind=behind)
                right[epoch] = accuracy(network, *test)

        keep(FRESH)
        client = DefendedClient(guard, torch.Generator().manual_seed(target.seed + 1))
        loss = fit(
            network,
            images,
            labels,
            recipe,
            client=client,
            after_epoch=keep,
            progress=progress,
        )
        return Trained(weights, right, len(test[1]), loss, time.perf_counter() - began)


def described(targets: Iterable[Target]) -> Iterator[tuple[str, JSON]]:
    """Each network once by its key, with all the ways in which the plan writes its data set."""
    alike: dict[str, list[Target]] = {}
    for target in targets:
        alike.setdefault(target.key(), []).append(target)
    for key, same in alike.items():
        spellings = list(dict.fromkeys(target.dataset for target in same))
        yield key, {**same[0].described(), SPELLINGS: spellings}


def spellings_of(facts: JSON) -> list[str]:
    """How the plan writes the data set of a network; studies of before knew one way only."""
    return list(facts.get(SPELLINGS, [facts["dataset"]]))


def targets_of(grid: Grid, lessons: Mapping[str, Lessons]) -> list[Target]:
    """Every network of a plan; what cannot be built or trained is refused."""
    found = [
        Target(
            dataset=dataset,
            model=model,
            recipe=recipe,
            seed=seed,
            epochs=grid.epochs,
            checkpoints=tuple(sorted(grid.checkpoints)),
            lr=grid.lr,
            batch=grid.training_batch,
            architecture=models.models.create(model).meaning,
            lessons=lessons[dataset].digest,
        )
        for dataset in grid.datasets
        for model in grid.models
        for seed in grid.seeds
        for recipe in grid.recipes_of(model)
    ]
    for target in found:
        refuse_idle(target.recipe)
    return found
