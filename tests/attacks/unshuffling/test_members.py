"""Who is in a protected set: values that stay in the set tell, whichever image they went to."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from glasshouse.attacks.unshuffling.members import METHODS, Asked, Census, Crowd, ask
from glasshouse.attacks.unshuffling.practice import as_a_client
from glasshouse.data.crops import photo_crops
from glasshouse.defenses import create
from glasshouse.functional.roc import roc
from glasshouse.training import Samples
from glasshouse.types import ImageSpec

COUNT = 48


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture(scope="module")
def crops() -> torch.Tensor:
    return photo_crops(ImageSpec(3, 16, 16, 1), 3 * COUNT, 0)


LABELS = torch.arange(COUNT) % 2


def census(crops: torch.Tensor, spec: str) -> tuple[Census, torch.Tensor]:
    """A third of the crops is in the set, a third is not, a third is the attacker's own; with the set's groups."""
    defense = create(spec).with_key(rng(1))
    inside, outside, own = (Samples(part, LABELS) for part in crops.split(COUNT))
    sent = [defense.in_epoch(epoch).on_samples(inside, rng=rng(2)).images for epoch in (0, 1)]
    practised = as_a_client(create(spec), rng(3))(own, 2)
    asked = Samples(torch.cat([inside.images, outside.images]), torch.cat([LABELS, LABELS]))
    return Census(asked, Crowd(tuple(sent), LABELS), Crowd(tuple(practised), LABELS)), defense.partners(inside)


def told(asked: Asked, groups: torch.Tensor) -> tuple[float, float]:
    """Area under the curve, and share of members whose group was found."""
    scores = asked.scores.numpy()
    found = groups[asked.holders[:COUNT]] == groups
    return roc(scores[:COUNT], scores[COUNT:]).auc, float(found.float().mean())


@pytest.mark.parametrize(
    ("spec", "method"),
    [
        ("csvar", "sorted values of regions"),
        ("pixelate:factor=4", "region means"),
        ("csvar_exchange:k=4,blend=1,dither=1", "sorted values of regions"),
        ("csvar_exchange:k=4,blend=1,dither=1,negative=true", "sorted values of regions"),
        ("csvar_exchange:k=4,blend=2,dither=1", "averages of two"),
        ("csvar_exchange:k=3,blend=3,dither=1", "mixtures of candidates"),
    ],
)
def test_each_method_finds_what_it_is_made_for(crops, spec, method):
    found, groups = census(crops, spec)
    area, share = told(ask(found, 4)[method], groups)
    assert area > 0.97
    assert share > 0.9


def test_averages_of_three_among_six_are_told_by_none(crops):
    found, groups = census(crops, "csvar_exchange")
    for method, asked in ask(found, 4).items():
        assert told(asked, groups)[0] < 0.85, method


def test_a_set_that_none_of_them_is_in(crops):
    found, _ = census(crops, "csvar")
    other = dataclasses.replace(found, sent=found.own, own=Crowd(found.own.versions[::-1], LABELS))
    for method, asked in ask(other, 4).items():
        assert float(asked.scores.abs().max()) < 0.5, method


def test_sorted_values_against_a_slow_version(crops):
    found, _ = census(crops, "csvar_exchange:k=4,blend=1,negative=true")
    few = dataclasses.replace(found, candidates=Samples(crops[[0, 50]], LABELS[[0, 2]]))
    asked = ask(few, 6)["sorted values of regions"]  # regions at the edge are smaller
    for place, image in enumerate(few.candidates.images.numpy()):
        means, votes = [], []
        for crowd in (few.own, few.sent):
            distances = []
            for version in crowd.versions:
                for channel in range(3):
                    for top in (0, 6, 12):
                        for left in (0, 6, 12):
                            cut = (channel, slice(top, top + 6), slice(left, left + 6))
                            mine = np.sort(image[cut].ravel())
                            near = [
                                min(
                                    np.sqrt(np.mean((np.sort(one[cut].ravel()) - values) ** 2))
                                    for values in (mine, np.sort(1 - mine))
                                )
                                for one in version.numpy()[LABELS.numpy() == 0]
                            ]
                            distances.append(min(near))
                            votes.append(2 * int(np.argmin(near)))
            means.append(np.mean(distances) + 1e-3)
        assert float(asked.scores[place]) == pytest.approx(np.log(means[0] / means[1]), abs=1e-3)
        counts = np.bincount(votes[len(votes) // 2 :])
        assert counts[int(asked.holders[place])] == counts.max()


def test_the_order_of_candidates_says_nothing(crops):
    found, _ = census(crops, "csvar_exchange:k=4,blend=2")
    order = torch.randperm(2 * COUNT, generator=rng())
    moved = Samples(found.candidates.images[order], found.candidates.targets[order])
    plain, other = (ask(one, 4) for one in (found, dataclasses.replace(found, candidates=moved)))
    for method in METHODS:
        torch.testing.assert_close(other[method].scores, plain[method].scores[order], atol=1e-4, rtol=0)


def test_classes_that_are_not_in_the_set_and_one_candidate_alone(crops):
    found, _ = census(crops, "csvar")
    alone = dataclasses.replace(found, candidates=Samples(crops[:1], torch.tensor([9])))
    for method, asked in ask(alone, 4).items():
        assert bool(asked.scores.isfinite().all()), method
        assert asked.holders.shape == (1,)
    assert int(ask(alone, 4)["sorted values of regions"].holders) == 0  # it is there, under another class
