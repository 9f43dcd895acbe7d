"""What an adversary's samples show of the class that it was after: an independent judge, and the nearest images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from glasshouse.errors import SettingError
from glasshouse.federated.adversaries.findings import Findings
from glasshouse.federated.adversaries.gan import GAN
from glasshouse.federated.holdings import dealt, open_test
from glasshouse.federated.leaks import likeness
from glasshouse.federated.plan import Federation
from glasshouse.functional.intervals import share_interval
from glasshouse.functional.threads import one_thread
from glasshouse.metrics import Metric
from glasshouse.registry import complete_spec
from glasshouse.store import Album
from glasshouse.studies.judge import Judge, train_judge
from glasshouse.studies.pictures import opaque_name, save_picture, to_pixels
from glasshouse.studies.scoring import mean_colors
from glasshouse.studies.sightings import assigned
from glasshouse.training import Samples
from glasshouse.types import ImageSpec, Interval

COMPARED = 24  # samples whose nearest images are looked for: each is compared with all images
PER_CLASS = 20  # most images of a class that a sample may be near to, as many of each
TAUGHT = 1000  # most images that the judge learns from, and most that it is tested on
SHOWN = 8


@dataclass(frozen=True, slots=True)
class Nearness:
    """Of each sample the value of a metric to the nearest image of a class, each class with as many images.

    ``target`` is the class that the adversary is after; ``others`` is the mean over all other classes; ``rival`` is
    the nearest of those, which is called ``rival_name``; ``rank`` is 1 where no class is nearer than the target.
    """

    target: Interval
    others: Interval
    rival: Interval
    rival_name: str
    rank: int


@dataclass(frozen=True, slots=True)
class Beside:
    """Samples beside images of the target, each with one of its own, and the floor: mean colours of the same images.

    Which image is whose is decided by the least squared error of all, for want of a truth. ``told`` is the share of
    samples whose most similar image, of as many of every class, shows the target: by chance one class of all.
    """

    values: dict[str, Interval]
    floor: dict[str, Interval]
    told: Interval


@dataclass(frozen=True, slots=True)
class Forgery:
    """What the samples of the last of ``rounds``, counted from 1, show; ``history`` is the share taken for the target.

    The judge learned from ``taught`` images that no client has; ``accuracy`` is how often it is right on images of
    clients, ``accuracy_target`` on those of the target. Intervals are over samples of one generator, not over runs.
    """

    adversary: str
    target: str
    rounds: tuple[int, ...]
    history: tuple[Interval, ...]
    chance: float
    taught: int
    accuracy: Interval
    accuracy_target: Interval
    images_per_class: int
    classes: int
    nearness: dict[str, Nearness]
    beside: Beside
    pictures: tuple[tuple[str, str], ...]

    @property
    def judged(self) -> Interval:
        """The share of the last round's samples that the judge takes for the target."""
        return self.history[-1]


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """The samples of every round that an adversary took part in, and the images of all clients."""

    adversary: GAN
    made: Mapping[int, Tensor]
    images: Tensor
    labels: Tensor
    class_names: tuple[str, ...]
    spec: ImageSpec

    @property
    def target(self) -> int:
        """The number of the class that the adversary is after."""
        return self.class_names.index(self.adversary.target)

    @property
    def private(self) -> Samples:
        """The images of the target, which the adversary does not hold."""
        own = self.labels == self.target
        return Samples(self.images[own], self.labels[own])

    def judged(self, strangers: Samples, metrics: Mapping[str, Metric], *, out: Path, seed: int) -> Forgery:
        """Score the samples, with a judge who learns from strangers' images; a few are kept as pictures."""
        rng = torch.Generator().manual_seed(seed)
        with one_thread():
            judge, taught = _taught(strangers, self.target, rng, seed)
            asked = torch.randperm(len(self.images), generator=rng)[:TAUGHT]
            chosen = evenly(self.labels, PER_CLASS, rng)
            images, labels = self.images[chosen], self.labels[chosen]
            last = self.made[max(self.made)]
            usable = {text: one for text, one in metrics.items() if one.why_not(self.spec, COMPARED) is None}
            return Forgery(
                adversary=complete_spec(self.adversary),
                target=self.adversary.target,
                rounds=tuple(number + 1 for number in self.made),
                history=tuple(taken_for(judge, samples, self.target) for samples in self.made.values()),
                chance=1 / len(self.labels.unique()),
                taught=taught,
                accuracy=accuracy(judge, Samples(self.images[asked], self.labels[asked])),
                accuracy_target=accuracy(judge, self.private),
                images_per_class=int((labels == self.target).sum()),
                classes=len(self.labels.unique()),
                nearness={
                    text: nearest(metric, last[:COMPARED], images, labels, self.target, self.class_names)
                    for text, metric in usable.items()
                },
                beside=beside(usable, last[:COMPARED], self.private.images, images, labels == self.target),
                pictures=_pictures(out, self.private.images, last[:SHOWN]),
            )


def gather(plan: Federation, directory: Path, rounds: int, root: Path | None) -> Evidence | None:
    """What there is to score of a federation with so many finished rounds, if an adversary makes images in it."""
    adversary, findings = plan.malicious, Findings(directory)
    if not isinstance(adversary, GAN) or not findings.rounds(rounds):
        return None
    test = open_test(plan, root)
    class_names = plan.class_names(test.class_names)
    held = [dealt(plan, client, class_names, root) for client in range(plan.clients)]
    return Evidence(
        adversary,
        {number: findings.samples(number, test.spec.height) for number in findings.rounds(rounds)},
        torch.cat([one.in_epoch(0).images for one in held]),
        torch.cat([one.labels for one in held]),
        class_names,
        test.spec,
    )


def taken_for(judge: Judge, samples: Tensor, target: int) -> Interval:
    """The share of samples that a judge takes for the target."""
    return share_interval(int((judge(samples) == target).sum()), len(samples))


def accuracy(judge: Judge, samples: Samples) -> Interval:
    """How often a judge is right."""
    return share_interval(int((judge(samples.images) == samples.targets).sum()), len(samples.targets))


def evenly(labels: Tensor, most: int, rng: torch.Generator) -> Tensor:
    """Places of as many images of every class: of each as many as the smallest class has, and at most so many."""
    order = torch.randperm(len(labels), generator=rng)
    parts = [order[labels[order] == label] for label in labels.unique()]
    count = min(most, *map(len, parts))
    return torch.cat([part[:count] for part in parts])


def nearest(
    metric: Metric, samples: Tensor, images: Tensor, labels: Tensor, target: int, class_names: Sequence[str]
) -> Nearness:
    """How near samples are to their nearest images of the target and of every other class."""
    values = torch.stack([metric(images, sample.expand_as(images)) for sample in samples])
    best = torch.amax if metric.leaks_when == "high" else torch.amin
    found = labels.unique()
    by_class = torch.stack([best(values[:, labels == label], 1) for label in found])
    means = by_class.mean(1) * (-1 if metric.leaks_when == "high" else 1)  # low is near
    own = found == target
    others = by_class[~own]
    rival = int(means[~own].argmin())
    return Nearness(
        target=metric.mean(by_class[own][0].tolist()),
        others=metric.mean(others.mean(0).tolist()),
        rival=metric.mean(others[rival].tolist()),
        rival_name=class_names[int(found[~own][rival])],
        rank=1 + int((means[~own] < means[own]).sum()),
    )


def beside(
    metrics: Mapping[str, Metric], samples: Tensor, private: Tensor, images: Tensor, of_target: Tensor
) -> Beside:
    """Score samples against private images of the target, as many as there are, and against the floor.

    ``images`` are as many of every class, of which those of the target are marked.
    """
    own = samples[: len(private)]
    truth = private[assigned(own, private)]

    def scores(guess: Tensor) -> dict[str, Interval]:
        return {text: metric.mean(metric(truth, guess).tolist()) for text, metric in metrics.items()}

    told = int(of_target[likeness(samples, images).argmax(1)].sum())
    return Beside(scores(own), scores(mean_colors(truth)), share_interval(told, len(samples)))


def _taught(strangers: Samples, target: int, rng: torch.Generator, seed: int) -> tuple[Judge, int]:
    """A judge of images that no client has, and of how many it learned."""
    chosen = torch.randperm(len(strangers.images), generator=rng)[:TAUGHT]
    labels = strangers.targets[chosen]
    if not bool((labels == target).any()) or len(labels.unique()) < 2:
        raise SettingError(
            "No judge can be taught: the test images that no client has show not both the adversary's target and "
            "another class. Federate with --test naming images of all classes."
        )
    return train_judge(strangers.images[chosen], labels, seed), len(chosen)


def _pictures(out: Path, truth: Tensor, samples: Tensor) -> tuple[tuple[str, str], ...]:
    """Pairs of an image of the target and a sample; which image stands beside which sample means nothing."""

    def kept(kind: str, at: int, image: Tensor) -> str:
        return save_picture(Album.of(out), opaque_name("forgery", kind, str(at)), to_pixels(image))[0]

    pairs = zip(truth, samples, strict=False)
    return tuple((kept("truth", at, one), kept("sample", at, two)) for at, (one, two) in enumerate(pairs))
