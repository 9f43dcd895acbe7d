"""What an attacker who knows everything but the key makes of protected images, part by part, scored."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from glasshouse.attacks.unshuffle import unshuffled
from glasshouse.attacks.unshuffling import inverse, linker
from glasshouse.attacks.unshuffling.grid import Array, Group, groups
from glasshouse.attacks.unshuffling.members import Asked, Census, ask
from glasshouse.attacks.unshuffling.practice import Practice
from glasshouse.attacks.unshuffling.thumbnail import fingerprints, nearest, region_means, thumbnail
from glasshouse.attacks.unshuffling.unmix import unmix
from glasshouse.errors import StudyError
from glasshouse.functional import roc
from glasshouse.functional.intervals import mean_interval, share_interval
from glasshouse.functional.shuffle import region_size
from glasshouse.metrics import Metric, metrics
from glasshouse.types import JSON, ImageSpec, Interval, Progress, finite_or_none, no_progress

VERSION = 2  # counts changes of the attack, or of its scores, that change results
METRICS = ("psnr", "ssim", "lpips", "semsim")
SET_METRICS = ("auc", "tpr_at_fpr_0.01")
IN_THE_SET = "H in the set: "
OUTSIDE = -1
PIXELS_PER_STEP = 32 * 32 * 32  # of the inverse's training, so that large images cost no more than small ones
FEWEST_PER_STEP = 4


@dataclass(frozen=True, slots=True, eq=False)
class Protected:
    """All that the attacker holds: versions of the same images (each (N, C, H, W) in [0, 1]), and knowledge.

    ``gallery`` (M, C, H, W) holds candidates for re-identification; ``practice`` lets the attacker learn from
    other images under keys of its own; ``census`` lets it ask who is in the set. ``region`` is the side of the
    regions in which values stay, CSVAR's unless given. ``blocks`` says whether blocks traded places inside regions and
    nothing else was done to them, so that a jigsaw can be solved; ``block_size`` is a fixed one, if it was fixed,
    and ``channel_wise`` whether channels moved apart. ``eight_bit`` says that 8-bit images were shuffled: regions
    whose variances are equal in whole numbers need not be so in floats, and would get other blocks.
    """

    versions: tuple[Tensor, ...]
    gallery: Tensor
    practice: Practice
    census: Census | None = None
    own_region: int | None = None
    blocks: bool = True
    block_size: int | None = None
    channel_wise: bool = True
    eight_bit: bool = False

    @property
    def region(self) -> int:
        """The side of the defense's own regions, else region size S (Eq. 1)."""
        return self.own_region or region_size(*self.versions[0].shape[-2:])

    def places(self, image: Array) -> list[Group]:
        """Where the blocks of an image (C, H, W) lie, as its sender cut them."""
        return groups(np.rint(255 * image).astype(np.uint8) if self.eight_bit else image, self.block_size)


@dataclass(frozen=True, slots=True, eq=False)
class Budget:
    """What the attacker spends on learning, the same for every defense that is compared."""

    inverse: inverse.Training = field(default_factory=inverse.Training)
    linker: linker.Training = field(default_factory=linker.Training)
    seed: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Findings:
    """What the attacker came up with: pictures by part, and by method gallery places, links and members."""

    pictures: dict[str, Tensor]
    identified: dict[str, Tensor]
    linked: dict[str, Tensor]
    members: dict[str, Asked] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the attack, or one baseline, with its scores."""

    name: str
    scores: dict[str, Interval]

    def to_json(self) -> JSON:
        """The part as plain JSON."""
        scores = {
            name: {key: finite_or_none(value) for key, value in dataclasses.asdict(one).items()}
            for name, one in self.scores.items()
        }
        return {"part": self.name, "scores": scores}


def batch_for(images: Tensor) -> int:
    """How many images (N, C, H, W) make one step of the inverse's training."""
    return max(PIXELS_PER_STEP // (images.shape[-2] * images.shape[-1]), FEWEST_PER_STEP)


def attack(held: Protected, budget: Budget, *, progress: Progress = no_progress) -> Findings:
    """Run every part that the attacker's knowledge allows."""
    first, region = held.versions[0], held.region
    pictures = {"A thumbnail": thumbnail(first, region)}
    if held.blocks:
        unmixed, solved = _jigsaw(held, budget.seed)
        if first.shape[1] > 1 and held.channel_wise:
            pictures["B channels un-mixed"] = unmixed
        pictures["C jigsaw"] = solved
    network = inverse.learn(held.practice, region, budget.inverse, progress=lambda share: progress(0.7 * share))
    guesses = [inverse.invert(network, version) for version in held.versions]
    pictures["D learned inverse"] = guesses[0]
    if len(guesses) > 1:
        pictures["E versions combined"] = torch.stack(guesses).mean(0)
    pair = linker.learn(held.practice, budget.linker, progress=lambda share: progress(0.7 + 0.3 * share))
    return Findings(
        pictures,
        _identified(held, pair, guesses[0]),
        _linked(held, pair, guesses),
        {} if held.census is None else ask(held.census, region),
    )


def _jigsaw(held: Protected, seed: int) -> tuple[Tensor, Tensor]:
    """Parts B and C on every image of the first version."""
    images = held.versions[0]
    unmixed, solved = [], []
    for number, image in enumerate(images):
        places = held.places(image.numpy())
        unmixed.append(unmix(image.numpy(), places))
        solved.append(unshuffled(image, seed + number, places, channel_wise=held.channel_wise))
    return torch.from_numpy(np.stack(unmixed)), torch.stack(solved)


def _features(images: Tensor, region: int) -> dict[str, Tensor]:
    """What an image can be known by: moments of its regions, and the same if values may have been negated."""
    means = region_means(images, region).flatten(1)
    spread = (region_means(images.square(), region).flatten(1) - means.square()).clamp_min(0).sqrt()
    return {
        "region moments": fingerprints(images, region),
        "region moments, negatives allowed": torch.cat([(means - 0.5).abs(), spread], 1),
    }


def _identified(held: Protected, pair: linker.Linker, guesses: Tensor) -> dict[str, Tensor]:
    """For each protected image the place in the gallery that it is taken for, by each method."""
    mine, theirs = (_features(images, held.region) for images in (held.versions[0], held.gallery))
    found = {name: nearest(mine[name], theirs[name]) for name in mine}
    found["learned inverse"] = nearest(_centred(guesses), _centred(held.gallery))
    embedded = linker.embed(pair.protected, held.versions[0])
    found["learned linker"] = nearest(embedded, linker.embed(pair.raw, held.gallery))
    return found


def _linked(held: Protected, pair: linker.Linker, guesses: Sequence[Tensor]) -> dict[str, Tensor]:
    """For each image of the second version the image of the first that it is taken for, by each method."""
    if len(held.versions) < 2:
        return {}
    first, second = (_features(images, held.region) for images in held.versions[:2])
    found = {name: nearest(second[name], first[name]) for name in first}
    found["learned inverse"] = nearest(_centred(guesses[1]), _centred(guesses[0]))
    one, two = (linker.embed(pair.protected, images) for images in held.versions[:2])
    found["learned linker"] = nearest(two, one)
    return found


def _centred(images: Tensor) -> Tensor:
    """Images as unit vectors without their mean, so that the nearest is the best correlated."""
    return F.normalize(images.flatten(1) - images.flatten(1).mean(1, keepdim=True))


@dataclass(frozen=True, slots=True, eq=False)
class Truth:
    """What only the study knows: the originals, where they lie in the gallery, and whether one is recognised.

    ``recognised`` tells of pictures (N, C, H, W) of the originals which (N,) still show their class; who judges
    so is a classifier, not a person. ``inside`` (M,) gives the place of each candidate in the set, or ``OUTSIDE``;
    ``partners`` gives the group of each image of the set, whose images may hold its values.
    """

    images: Tensor
    places: Tensor
    recognised: Callable[[Tensor], Tensor] | None = None
    inside: Tensor | None = None
    partners: Tensor | None = None


def not_defined(images: Tensor, measured: Sequence[str] = METRICS) -> dict[str, str]:
    """The metrics that have no value for such images (N, C, H, W), each with the reason."""
    count, channels, height, width = images.shape
    spec = ImageSpec(channels, height, width, classes=1)
    reasons = {name: metrics.create(name).why_not(spec, count) for name in measured}
    return {name: reason for name, reason in reasons.items() if reason is not None}


def score(truth: Truth, held: Protected, findings: Findings, *, measured: Sequence[str] = METRICS) -> list[Part]:
    """Compare what the attacker found with the truth; the first pictures are the originals and what was sent."""
    skipped = not_defined(truth.images, measured)
    judges = {name: metrics.create(name) for name in measured if name not in skipped}
    pictures = {
        "original": truth.images,
        "protected image": held.versions[0],
        **findings.pictures,
        **dict(_baselines(truth.images, held.region)),
    }
    parts = []
    for name, guess in pictures.items():
        eight_bit = (guess.clamp(0, 1) * 255).round() / 255
        scores = {
            metric: judge.mean(judge(truth.images, eight_bit).tolist())
            for metric, judge in judges.items()
            if isinstance(judge, Metric) and name != "original"
        }
        if held.blocks and name in ("B channels un-mixed", "C jigsaw"):
            scores["blocks in place"] = _in_place(truth.images, guess, held)
        if truth.recognised is not None:
            scores["recognised"] = _share(truth.recognised(eight_bit))
        parts.append(Part(name, scores))
    for method, believed in findings.identified.items():
        parts.append(Part(f"re-identified: {method}", {"share": _share(believed == truth.places)}))
    for method, believed in findings.linked.items():
        parts.append(Part(f"F linked: {method}", {"share": _share(believed == torch.arange(len(believed)))}))
    return parts + [Part(f"{IN_THE_SET}{method}", told_apart(truth, one)) for method, one in findings.members.items()]


def told_apart(truth: Truth, asked: Asked) -> dict[str, Interval]:
    """How well scores tell members from others, and how often a member's group was found."""
    if truth.inside is None or truth.partners is None:
        raise StudyError("Candidates were asked about whose membership is not known: give the truth of them.")
    members = truth.inside != OUTSIDE
    measured = roc.measure(asked.scores[members].numpy(), asked.scores[~members].numpy())
    found = {name: value for name in SET_METRICS if (value := measured[name]) is not None}
    hits = truth.partners[asked.holders[members]] == truth.partners[truth.inside[members]]
    return {**found, "group found": _share(hits)}


def _share(hits: Tensor) -> Interval:
    return share_interval(int(hits.sum()), len(hits))


def _in_place(truth: Tensor, guess: Tensor, held: Protected) -> Interval:
    """Share of blocks that lie where they belong, by their content, in all channels."""
    shares = []
    for real, found in zip(truth.numpy(), guess.numpy(), strict=True):
        right = [np.abs(group.cut(real) - group.cut(found)).max((0, 2)) < 1e-3 for group in held.places(real)]
        shares.append(float(np.concatenate(right).mean()) if right else 1.0)
    return mean_interval(shares, within=(0, 1))


def _baselines(truth: Tensor, region: int) -> Iterator[tuple[str, Tensor]]:
    """Pictures with as little detail as a thumbnail of region means, and one with none, made from the truth."""
    yield "baseline: blur", _blurred(truth, region / 2)
    yield "baseline: down-sampled", thumbnail(truth, region)
    order = torch.randperm(truth.shape[-2] * truth.shape[-1], generator=torch.Generator().manual_seed(0))
    yield "baseline: pixels shuffled", truth.flatten(2)[:, :, order].view_as(truth)


def _blurred(images: Tensor, sigma: float) -> Tensor:
    """Gaussian blur with reflected borders as far as the image allows."""
    radius = min(int(3 * sigma), min(images.shape[-2:]) - 1)
    kernel = torch.exp(-0.5 * (torch.arange(-radius, radius + 1) / sigma) ** 2)
    kernel = (kernel / kernel.sum()).expand(images.shape[1], 1, -1)
    padded = F.pad(images, (radius,) * 4, mode="reflect")
    rows = F.conv2d(padded, kernel[:, :, None], groups=images.shape[1])
    return F.conv2d(rows, kernel[:, :, :, None], groups=images.shape[1])
