"""Part H: who is in a protected set, and who holds them, by what no exchange inside a class takes out of the set."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import nnls
from torch import Tensor

from glasshouse.attacks.unshuffling.thumbnail import region_means
from glasshouse.training import Samples

PAIRED_CELLS = 4  # cells in which averages of candidates are tried
NEARLY = 1e-3  # distances below this are as good as none
PARTNERS = 200  # candidates of a class that each of them is averaged with

#: Distances (M, looks) of candidates to the nearest of some images, and which (M, looks) of them those are.
Nearest = tuple[Tensor, Tensor]


@dataclass(frozen=True, slots=True, eq=False)
class Crowd:
    """Whole versions of a protected set, each (N, C, H, W) in [0, 1], and the classes (N,) of its images."""

    versions: tuple[Tensor, ...]
    labels: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Census:
    """Candidates, the set that some of them may be in, and a set of the attacker's own that none of them is in.

    Some images are near to everything: only what the victim's set is nearer than the attacker's tells members.
    """

    candidates: Samples
    sent: Crowd
    own: Crowd


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """What the attacker believes: scores (M,), high for members, and the image (M,) that holds most of each."""

    scores: Tensor
    holders: Tensor


def ask(census: Census, region: int) -> dict[str, Asked]:
    """Compare candidates with all protected images of their class, by each method.

    Values that trade places inside a region and channel stay as a sorted list, whichever image they went to; means
    of regions stay where values were averaged down. Where images were averaged with each other, the attacker tries
    averages of candidates: of any two, cell by cell, and of several at once for whole images.
    """
    return {name: _asked(census, region, nearest) for name, nearest in METHODS.items()}


def _asked(census: Census, region: int, nearest: Callable[[Tensor, Sequence[Tensor], int], Nearest]) -> Asked:
    images, targets = census.candidates.images, census.candidates.targets
    scores, holders = torch.zeros(len(images)), torch.zeros(len(images), dtype=torch.long)
    for label in targets.unique():
        mine = targets == label
        (far, _), (near, held) = (
            nearest(images[mine], [version[places] for version in crowd.versions], region)
            for crowd, places in ((crowd, _places(crowd, label)) for crowd in (census.own, census.sent))
        )
        scores[mine] = torch.log((far.mean(1) + NEARLY) / (near.mean(1) + NEARLY))
        holders[mine] = _places(census.sent, label)[held.mode(1).values]
    return Asked(scores, holders)


def _places(crowd: Crowd, label: Tensor) -> Tensor:
    """Where the images of a class lie in a set; all of them where it has none of that class."""
    places = (crowd.labels == label).nonzero()[:, 0]
    return places if len(places) else torch.arange(len(crowd.labels))


def _cells(images: Tensor, region: int) -> Iterator[Tensor]:
    """The values (N, values) of every region and channel of images."""
    _, channels, height, width = images.shape
    for channel, top, left in itertools.product(range(channels), range(0, height, region), range(0, width, region)):
        yield images[:, channel, top : top + region, left : left + region].flatten(1)


def _distances(first: Tensor, second: Tensor) -> Tensor:
    """Root mean squares (M, N) of the differences of rows."""
    found: Tensor = torch.cdist(first, second) / first.shape[1] ** 0.5
    return found


def _nearest_sorted(images: Tensor, versions: Sequence[Tensor], region: int) -> Nearest:
    """By the sorted values of each cell, as they are or as negatives."""
    looks = []
    for version in versions:
        for mine, theirs in zip(_cells(images, region), _cells(version, region), strict=True):
            ordered, known = mine.sort(1).values, theirs.sort(1).values
            turned = (1 - ordered).flip(1)
            looks.append(torch.minimum(_distances(ordered, known), _distances(turned, known)).min(1))
    return torch.stack([look.values for look in looks], 1), torch.stack([look.indices for look in looks], 1)


def _nearest_means(images: Tensor, versions: Sequence[Tensor], region: int) -> Nearest:
    """By the means of all regions of an image at once."""
    mine = region_means(images, region).flatten(1)
    looks = [_distances(mine, region_means(version, region).flatten(1)).min(1) for version in versions]
    return torch.stack([look.values for look in looks], 1), torch.stack([look.indices for look in looks], 1)


def _nearest_pairs(images: Tensor, versions: Sequence[Tensor], region: int) -> Nearest:
    """By the sorted averages of each candidate and some others, cell by cell, in the first version.

    ``PARTNERS`` are spread over the candidates, so that their order says nothing.
    """
    cells = list(zip(_cells(images, region), _cells(versions[0], region), strict=True))
    chosen = torch.linspace(0, len(cells) - 1, min(PAIRED_CELLS, len(cells))).long().unique()
    partners = torch.linspace(0, len(images) - 1, min(PARTNERS, len(images))).long().unique()
    distances, held = (torch.zeros(len(images), len(chosen), dtype=kind) for kind in (torch.float32, torch.long))
    for look, (mine, theirs) in enumerate(cells[int(number)] for number in chosen):
        known = theirs.sort(1).values
        for place, values in enumerate(mine):
            others = mine[partners[partners != place]] if len(images) > 1 else mine
            found = _distances(((others + values) / 2).sort(1).values, known)
            nearest = int(found.argmin())
            distances[place, look], held[place, look] = found.flatten()[nearest], nearest % len(known)
    return distances, held


def _nearest_mixtures(images: Tensor, versions: Sequence[Tensor], region: int) -> Nearest:
    """By the weight of each candidate in the mixture of all of them that a protected image's region means come from.

    Few images were averaged, so the weights that are not negative (Lawson and Hanson 1974) are few and telling.
    """
    mine, theirs = (region_means(one, region).flatten(1).double().numpy() for one in (images, versions[0]))
    weights = np.stack([nnls(mine.T, one)[0] for one in theirs], axis=1)
    largest = torch.from_numpy(weights).float().clamp(0, 1).max(1)
    return 1 - largest.values[:, None], largest.indices[:, None]


METHODS = {
    "sorted values of regions": _nearest_sorted,
    "region means": _nearest_means,
    "averages of two": _nearest_pairs,
    "mixtures of candidates": _nearest_mixtures,
}
