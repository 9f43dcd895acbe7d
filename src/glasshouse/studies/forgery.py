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
from glasshouse.federated.holdings import dealt
from glasshouse.federated.plan import Federation
from glasshouse.functional.intervals import mean_interval, share_interval
from glasshouse.functional.threads import one_thread
from glasshouse.metrics import Metric
from glasshouse.studies.judge import Judge, train_judge
from glasshouse.studies.pictures import opaque_name, save_picture, to_pixels
from glasshouse.training import Samples
from glasshouse.types import Interval

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
class Forgery:
    """What the samples of a round show; ``history`` is the share that the judge took for the target in every round.

    The judge learned from ``taught`` images that no client has; ``accuracy`` is how often it is right on images of
    clients, ``accuracy_target`` on those of the target. Intervals are over samples of one generator, not over runs.
    """

    adversary: str
    target: str
    round: int
    history: tuple[Interval, ...]
    chance: float
    taught: int
    accuracy: Interval
    accuracy_target: Interval
    images_per_class: int
    classes: int
    nearness: dict[str, Nearness]
    pictures: tuple[tuple[str, str], ...]

    @property
    def judged(self) -> Interval:
        """The share of the last round's samples that the judge takes for the target."""
        return self.history[-1]


def judge_forgery(
    plan: Federation,
    directory: Path,
    rounds: int,
    strangers: Samples,
    class_names: tuple[str, ...],
    judges: Mapping[str, Metric],
    *,
    out: Path,
    root: Path | None,
    seed: int,
) -> Forgery | None:
    """Score what the adversary of a federation made in all rounds, if it has one who makes images."""
    adversary = plan.malicious
    if not isinstance(adversary, GAN):
        return None
    rng = torch.Generator().manual_seed(seed)
    target = class_names.index(adversary.target)
    held = [dealt(plan, client, class_names, root) for client in range(plan.clients)]
    images = torch.cat([one.in_epoch(0).images for one in held])
    labels = torch.cat([one.labels for one in held])
    image = held[0].spec
    made = [Findings(directory).samples(number, image.height) for number in range(rounds)]
    chosen = evenly(labels, PER_CLASS, rng)
    with one_thread():
        judge, taught = _taught(strangers, target, rng, seed)
        history = tuple(judged(judge, samples, target) for samples in made)
        asked = torch.randperm(len(images), generator=rng)[:TAUGHT]
        seen, near = made[-1][:COMPARED], images[chosen]
        nearness = {
            text: nearest(metric, seen, near, labels[chosen], target, class_names)
            for text, metric in judges.items()
            if metric.why_not(image, len(near)) is None
        }
    return Forgery(
        adversary=str(plan.adversary),
        target=adversary.target,
        round=rounds - 1,
        history=history,
        chance=1 / len(set(labels.tolist())),
        taught=taught,
        accuracy=_accuracy(judge, images[asked], labels[asked]),
        accuracy_target=_accuracy(judge, images[labels == target][:TAUGHT], labels[labels == target][:TAUGHT]),
        images_per_class=int((labels[chosen] == target).sum()),
        classes=len(set(labels.tolist())),
        nearness=nearness,
        pictures=_pictures(out, images[labels == target], seen[:SHOWN]),
    )


def judged(judge: Judge, samples: Tensor, target: int) -> Interval:
    """The share of samples that a judge takes for the target."""
    return share_interval(int((judge(samples) == target).sum()), len(samples))


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
        target=mean_interval(by_class[own][0].tolist()),
        others=mean_interval(others.mean(0).tolist()),
        rival=mean_interval(others[rival].tolist()),
        rival_name=class_names[int(found[~own][rival])],
        rank=1 + int((means[~own] < means[own]).sum()),
    )


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


def _accuracy(judge: Judge, images: Tensor, labels: Tensor) -> Interval:
    return share_interval(int((judge(images) == labels).sum()), len(labels))


def _pictures(out: Path, truth: Tensor, samples: Tensor) -> tuple[tuple[str, str], ...]:
    """Pairs of an image of the target and a sample; which image stands beside which sample means nothing."""

    def kept(kind: str, at: int, image: Tensor) -> str:
        return save_picture(out, opaque_name("forgery", kind, str(at)), to_pixels(image))[0]

    pairs = zip(truth, samples, strict=False)
    return tuple((kept("truth", at, one), kept("sample", at, two)) for at, (one, two) in enumerate(pairs))
