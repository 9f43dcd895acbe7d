"""A comparison of image defenses: its settings, its images, and where its rows are kept."""

from __future__ import annotations

import dataclasses
import hashlib
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from glasshouse import checks, data
from glasshouse.errors import DataError
from glasshouse.metrics import metrics
from glasshouse.registry import setting
from glasshouse.store.seals import read_sealed, write_sealed
from glasshouse.studies import judge, shuffled
from glasshouse.studies.materials import unlike
from glasshouse.studies.variants import Variant
from glasshouse.training import Samples
from glasshouse.types import JSON, ImageSpec

VERSION = 3  # counts changes of how accuracy and leakage are measured that change results
FEWEST = 4  # training images


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The settings under which image defenses are compared on one data set, the same for all of them."""

    dataset: str = setting("cifar10", "data set SPEC")
    images: int = setting(200, "protected test images that are attacked")
    gallery: int = setting(1000, "test images among which an original is to be found, the attacked ones included")
    train: int = setting(4000, "training images: the client's for accuracy, public ones for the attacker")
    model: str = setting("resnet20:width=8", "classifier SPEC")
    epochs: int = setting(12, "epochs of the classifier")
    batch: int = setting(64, "images per step of the classifier")
    steps: int = setting(600, "steps of the learned inverse; the linker takes half as many")
    versions: int = setting(3, "epochs' versions of each image that the attacker collects")
    seed: int = setting(0, "seed of everything random")

    def __post_init__(self) -> None:
        for name in ("images", "gallery", "epochs", "steps", "versions"):
            checks.at_least(name, getattr(self, name), 1)
        checks.at_least("train", self.train, FEWEST)
        checks.at_least("gallery", self.gallery, self.images)


@dataclass(frozen=True, slots=True, eq=False)
class Dealt:
    """The images of a comparison: public ones, those of a client that is attacked, and all that accuracy is told on."""

    public: Samples
    client: Samples
    test: Samples
    spec: ImageSpec

    @property
    def digest(self) -> str:
        """A hash of the images and labels themselves: the same name may stand for other files tomorrow."""
        found = hashlib.sha256()
        for samples in (self.public, self.client, self.test):
            for values in (samples.images, samples.targets):
                found.update(values.contiguous().numpy().tobytes())
        return found.hexdigest()


def deal(plan: Comparison, root: Path | None) -> Dealt:
    """Draw the images of a comparison; public ones that are test images as well are left out."""
    train_set = data.load(plan.dataset, root=root, split="train")
    test_set = data.load(plan.dataset, root=root, split="test")
    public = Samples(*train_set.batch(train_set.spread(min(plan.train, len(train_set)), plan.seed)))
    client = Samples(*test_set.batch(test_set.spread(min(plan.gallery, len(test_set)), plan.seed)))
    test = Samples(*test_set.batch(range(len(test_set))))
    new = _unattacked(public, client, test)
    if int(new.sum()) < FEWEST:
        raise DataError(
            f"'{plan.dataset}' has no test images of its own, so the attacker would practise on the very images it "
            "attacks: give a data set with x_train and x_test."
        )
    return Dealt(Samples(public.images[new], public.targets[new]), client, test, test_set.spec)


def _unattacked(public: Samples, client: Samples, test: Samples) -> Tensor:
    """Which public images are no copy of an image that is attacked, and not the same as one that accuracy is told on.

    By content, because names differ with the part of a file. Only the attacked images, which are few, are compared
    pixel by pixel.
    """
    tested = {image.numpy().tobytes() for image in test.images}
    strange = [image.numpy().tobytes() not in tested for image in public.images]
    return torch.tensor(strange) & torch.tensor(unlike(public.images, client.images))


@dataclass(frozen=True, slots=True)
class ComparisonShelf:
    """Where the rows of a comparison are kept: names cover all that decides a row's content."""

    directory: Path
    facts: tuple[object, ...]
    judge: Path

    @classmethod
    def of(cls, plan: Comparison, dealt: Dealt, network: nn.Module, directory: Path) -> ComparisonShelf:
        """The shelf of a plan, for these very images and this very network."""
        settings = {name: value for name, value in dataclasses.asdict(plan).items() if name not in ("dataset", "model")}
        scored = [(name, metrics.create(name).edition) for name in shuffled.METRICS]
        facts = (VERSION, shuffled.VERSION, judge.VERSION, scored, settings, dealt.digest, _digest_of(network))
        told = _name(judge.VERSION, dealt.digest, plan.seed)
        return cls(directory, facts, directory / f"judge-{told}.safetensors")

    def file(self, variant: Variant) -> Path:
        """Where the row of a variant is kept; its pictures lie beside it."""
        return self.directory / f"{_name(*self.facts, variant.identity)}.json"

    def row(self, variant: Variant) -> JSON | None:
        """The row of a variant, if there is one as it was written; a damaged one is measured anew."""
        row = read_sealed(self.file(variant))
        # of two ways to write a defense, the one that is asked for now
        return None if row is None else row | {"variant": variant.text}

    def keep(self, variant: Variant, row: JSON) -> None:
        """Write the row of a variant down, with its checksum."""
        write_sealed(self.file(variant), row)


def _name(*facts: object) -> str:
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]


def _digest_of(network: nn.Module) -> str:
    """A hash of what a network is and begins with."""
    found = hashlib.sha256(repr(network).encode())
    for values in network.state_dict().values():
        found.update(values.contiguous().numpy().tobytes())
    return found.hexdigest()
