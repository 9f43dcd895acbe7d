"""What image defenses hide from an attacker who knows them, beside what they cost in accuracy."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from glasshouse import checks, data, defenses
from glasshouse.attacks.unshuffling import inverse, linker
from glasshouse.attacks.unshuffling.practice import Practice
from glasshouse.data import ImageSet
from glasshouse.defenses import DefendedClient, Defense
from glasshouse.defenses.csvar import CSVAR
from glasshouse.errors import DataError, SettingError
from glasshouse.files import write_atomic
from glasshouse.functional.intervals import share_interval
from glasshouse.models import own
from glasshouse.registry import setting
from glasshouse.studies.judge import Judge, train_judge
from glasshouse.studies.pictures import to_pixels, to_png
from glasshouse.studies.runner import RunProgress
from glasshouse.studies.shuffled import Budget, Findings, Part, Protected, Truth, attack, batch_for, score
from glasshouse.training import Recipe, Samples, accuracy, fit
from glasshouse.types import JSON, Interval

VERSION = 2  # counts changes that change results
SHOWN = 8
AT_ONCE = 256
ENLARGED = "@"


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
        for name in ("images", "gallery", "train", "epochs", "steps", "versions"):
            checks.at_least(name, getattr(self, name), 1)
        checks.at_least("gallery", self.gallery, self.images)

    @property
    def key(self) -> str:
        """A hash of all settings."""
        return hashlib.sha256(json.dumps([VERSION, dataclasses.asdict(self)]).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Variant:
    """A defense, and the resolution at which it acts: ``SPEC`` at the images' own, ``SPEC@224`` enlarged.

    Enlarged images are protected, then averaged down again by area: what a client could train on, and what an
    attacker would do first. ``side`` is their longer side in pixels.
    """

    text: str
    defense: Defense
    side: int | None

    @classmethod
    def parse(cls, text: str) -> Variant:
        """Read a variant; one that does not act on images is refused."""
        spec, enlarged, given = text.partition(ENLARGED)
        defense = defenses.create(spec)
        if enlarged and not (given.isdecimal() and int(given)):
            raise SettingError(f"'{text}' acts at '{given}' pixels: write SPEC{ENLARGED}224, for example.")
        if not set(defense.acts_on.split(", then ")) <= {"images", "nothing"}:
            raise SettingError(f"'{text}' acts on {defense.acts_on}: only defenses of images are compared here.")
        return cls(text, defense, int(given) if enlarged else None)

    @property
    def moves_blocks(self) -> bool:
        """Whether blocks trade places inside regions of the images as they are sent, and nothing else happens."""
        return self.side is None and self.defense.moves_blocks

    def protect(self, defense: Defense, samples: Samples, rng: torch.Generator) -> Tensor:
        """Protected images of the size of the given ones."""
        if self.side is None:
            return defense.on_samples(samples, rng=rng).images
        height, width = samples.images.shape[-2:]
        scale = self.side / max(height, width)
        size = [round(height * scale), round(width * scale)]
        parts = []
        for images, targets in zip(samples.images.split(AT_ONCE), samples.targets.split(AT_ONCE), strict=True):
            large = F.interpolate(images, size=size, mode="bilinear", align_corners=False)
            changed = defense.with_key(rng).on_samples(Samples(large, targets), rng=rng).images
            parts.append(F.interpolate(changed, size=(height, width), mode="area"))
        return torch.cat(parts)


class ResizedClient(DefendedClient):
    """A client that trains behind a defense which acts at a resolution of its own."""

    def __init__(self, variant: Variant, rng: torch.Generator) -> None:
        super().__init__(variant.defense, rng)
        self.variant = variant

    def samples(self, samples: Samples) -> Samples:
        """What the client trains on in the next epoch."""
        if self.variant.side is None:
            return super().samples(samples)
        self.epoch += 1
        images = self.variant.protect(self.defense.in_epoch(self.epoch - 1), samples, self.rng)
        return dataclasses.replace(samples, images=images)


def compare(
    plan: Comparison,
    variants: list[str],
    directory: Path,
    *,
    root: Path | None = None,
    workers: int = 1,
    minutes: float | None = None,
    progress: RunProgress = lambda done, total: None,
) -> list[JSON]:
    """Measure every variant that is not yet measured; return the rows of those that are.

    Each row is one file, written when it is finished, so that a run that was stopped goes on with the next row.
    """
    for text in variants:
        Variant.parse(text)
    directory.mkdir(parents=True, exist_ok=True)
    left = [text for text in variants if not row_file(plan, text, directory).exists()]
    if left:
        found = len(variants) - len(left)
        progress(found, len(variants))
        _measure_all(plan, left, directory, root, workers, minutes, lambda done: progress(found + done, len(variants)))
    files = [row_file(plan, text, directory) for text in variants]
    return [json.loads(file.read_text(encoding="utf-8")) for file in files if file.exists()]


def _measure_all(
    plan: Comparison,
    left: list[str],
    directory: Path,
    root: Path | None,
    workers: int,
    minutes: float | None,
    progress: Callable[[int], None],
) -> None:
    """Measure some variants at once, one thread each, and begin no more when the time is up."""
    deadline = float("inf") if minutes is None else time.monotonic() + 60 * minutes
    if not _judge_file(plan, directory).exists():
        _train_judge(plan, directory, root)
    queue, done = iter(left), 0
    spawn = get_context("spawn")
    with ProcessPoolExecutor(workers, spawn, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        running: set[Future[JSON]] = set()
        while True:
            free = workers - len(running) if time.monotonic() < deadline else 0
            running |= {pool.submit(measure, plan, text, directory, root) for text in itertools.islice(queue, free)}
            if not running:
                return
            finished, running = wait(running, return_when=FIRST_COMPLETED)
            for one in finished:
                one.result()
                done += 1
                progress(done)


def row_file(plan: Comparison, text: str, directory: Path) -> Path:
    """Where the row of a variant is kept; its pictures lie beside it."""
    name = hashlib.sha256(f"{plan.key} {text}".encode()).hexdigest()[:16]
    return directory / f"{name}.json"


def measure(plan: Comparison, text: str, directory: Path, root: Path | None) -> JSON:
    """One row: accuracy behind a defense, and everything the attacker gets out of it."""
    began = time.perf_counter()
    variant = Variant.parse(text)
    train_set = data.load(plan.dataset, root=root, split="train")
    test_set = data.load(plan.dataset, root=root, split="test")
    if set(train_set.ids) & set(test_set.ids):
        raise DataError(
            f"'{plan.dataset}' has no test images of its own, so the attacker would practise on the very images it "
            "attacks: give a data set with x_train and x_test."
        )
    public = Samples(*train_set.batch(train_set.spread(min(plan.train, len(train_set)), plan.seed)))
    gallery = Samples(*test_set.batch(test_set.spread(min(plan.gallery, len(test_set)), plan.seed)))
    accuracies = _utility(plan, variant, public, test_set)
    shown, parts = _leakage(plan, variant, public, gallery, Judge.load(_judge_file(plan, directory)))
    file = row_file(plan, text, directory)
    for name, images in shown.items():
        pixels = to_pixels(torch.cat(list(images), dim=-1))
        write_atomic(file.with_suffix(f".{name}.png"), to_png(pixels))
    row = {
        "variant": text,
        "plan": dataclasses.asdict(plan),
        "accuracy": {name: dataclasses.asdict(value) for name, value in accuracies.items()},
        "parts": [part.to_json() for part in parts],
        "pictures": list(shown),
        "seconds": time.perf_counter() - began,
    }
    write_atomic(file, json.dumps(row, indent=1).encode())
    return row


def _judge_file(plan: Comparison, directory: Path) -> Path:
    return directory / f"judge-{plan.key}.safetensors"


def _train_judge(plan: Comparison, directory: Path, root: Path | None) -> None:
    """Train the judge on the same public images that the attacker has."""
    train_set = data.load(plan.dataset, root=root, split="train")
    public = train_set.batch(train_set.spread(min(plan.train, len(train_set)), plan.seed))
    train_judge(*public, plan.seed).save(_judge_file(plan, directory))


def _utility(plan: Comparison, variant: Variant, public: Samples, test_set: ImageSet) -> dict[str, Interval]:
    """Accuracy on clean and on protected test images of a classifier that was trained on protected images only."""
    network = own.build(plan.model, test_set.spec, seed=plan.seed)
    rng = torch.Generator().manual_seed(plan.seed + 1)
    client = ResizedClient(variant, rng)
    recipe = Recipe(epochs=plan.epochs, batch=plan.batch, augment=False, seed=plan.seed)
    fit(network, public.images, public.targets, recipe, client=client)
    test = Samples(*test_set.batch(range(len(test_set))))
    # who asks for a class does not know it: each test image is protected as if it were the only one of its own
    alone = Samples(test.images, torch.arange(len(test_set)))
    protected = variant.protect(client.defense.in_epoch(plan.epochs), alone, rng)
    found = {"clean": accuracy(network, test.images, test.targets)}
    found["protected"] = accuracy(network, protected, test.targets)
    return {name: share_interval(round(share * len(test_set)), len(test_set)) for name, share in found.items()}


def _leakage(
    plan: Comparison, variant: Variant, public: Samples, gallery: Samples, judge: Judge
) -> tuple[dict[str, Tensor], list[Part]]:
    """Attack a client's protected test images; return a few pictures and the scores."""
    rng = torch.Generator().manual_seed(plan.seed + 2)
    defense = variant.defense.with_key(rng)
    versions = [variant.protect(defense.in_epoch(epoch), gallery, rng) for epoch in range(plan.versions)]
    own_keys = torch.Generator().manual_seed(plan.seed + 3)
    count = min(plan.images, len(gallery.images))
    held = Protected(
        versions=tuple(version[:count] for version in versions),
        gallery=gallery.images,
        practice=Practice(
            public, lambda samples: variant.protect(variant.defense.with_key(own_keys), samples, own_keys)
        ),
        blocks=variant.moves_blocks,
        block_size=defense.block_size if isinstance(defense, CSVAR) else None,
        channel_wise=defense.channel_wise if isinstance(defense, CSVAR) else True,
    )
    budget = Budget(
        inverse.Training(steps=plan.steps, batch=batch_for(gallery.images), seed=plan.seed),
        linker.Training(steps=max(plan.steps // 2, 1), seed=plan.seed),
        plan.seed,
    )
    findings = attack(held, budget)
    labels = gallery.targets[:count]
    truth = Truth(gallery.images[:count], torch.arange(count), lambda pictures: judge(pictures) == labels)
    return _shown(truth, held, findings), score(truth, held, findings)


def _shown(truth: Truth, held: Protected, findings: Findings) -> dict[str, Tensor]:
    """A few originals, what was sent of them, and what the attacker made of it."""
    pictures = {"original": truth.images, "protected": held.versions[0]}
    pictures |= {name.split()[0]: images for name, images in findings.pictures.items()}
    return {name: images[:SHOWN].clamp(0, 1) for name, images in pictures.items()}
