"""From votes to what SemSim is taught: how recognisable each guess is, and decoys that nobody would recognise.

Of people it is the share who recognised the original. Of classifiers, three signs of recognition are added, each as a
z-score within its data set: the mean logarithm of their grades, the negative LPIPS (VGG) distance and SSIM; a viewer
agrees better with their sum than with what classifiers say alone. The sum becomes a value in [0, 1] by the logistic
curve that lies nearest to the share of these classifiers who saw the original. What SemSim calls a probability is
that of being recognised by a voter: it is fitted to the votes themselves.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from glasshouse.metrics import create
from glasshouse.semsim.calibration import logistic_line
from glasshouse.semsim.fit import Judged, Recipe
from glasshouse.studies.judgements import Judgements
from glasshouse.studies.measuring import measured

NEVER = 1e-4  # a grade below which nothing is told apart any more
SIGNS = ("lpips:net=vgg", "ssim")  # metrics that see what classifiers overlook


def values(judgements: Judgements) -> Tensor:
    """How recognisable each guess is, (K,) in [0, 1]."""
    shares = torch.tensor([guess.share for guess in judgements.guesses])
    if judgements.kind == "human" or not all(guess.grades for guess in judgements.guesses):
        return shares
    agreement = torch.tensor(
        [torch.tensor(list(guess.grades.values())).clamp_min(NEVER).log().mean().item() for guess in judgements.guesses]
    )
    signs = [agreement, *(_sign(judgements, metric) for metric in SIGNS)]
    sets = [judgements.dataset_of(guess) for guess in judgements.guesses]
    found = torch.empty_like(shares)
    for dataset in judgements.datasets:
        rows = torch.tensor([name == dataset for name in sets])
        found[rows] = _squashed(torch.stack([_standard(sign[rows]) for sign in signs]).sum(0), shares[rows])
    return found


def _sign(judgements: Judgements, metric: str) -> Tensor:
    """A metric of every guess, the higher the more recognisable; NaN where it is not defined."""
    values = measured(judgements, metric)
    return -values if create(metric).leaks_when == "low" else values


def _standard(values: Tensor) -> Tensor:
    """z-scores; values that are all the same, or not known, say nothing and become 0."""
    centred: Tensor = values - values.nanmean()
    return (centred / centred.square().nanmean().sqrt().clamp_min(1e-6)).nan_to_num(0.0)


def _squashed(signs: Tensor, shares: Tensor) -> Tensor:
    start, slope = logistic_line(-signs, shares)
    return torch.sigmoid(start + slope * signs.double()).float()


def taught(judgements: Judgements, graded: Tensor, recipe: Recipe) -> Judged:
    """Judged guesses for training, each original with two decoys more: another original and its own mean colour.

    Originals that the recipe holds out are decoys of one another, never of those that teach.
    """
    pictures = [original.picture for original in judgements.originals]
    guesses = [guess.picture for guess in judgements.guesses]
    Judged(pictures, guesses, judgements.owners, graded).refuse_useless()  # decoys would hide that votes are one-sided
    parts = recipe.parts(len(pictures), torch.Generator().manual_seed(recipe.seed))
    pairs = sorted(pair for part in parts for pair in _others(judgements, part.sort().values.tolist()))
    grey = [picture.mean((1, 2), keepdim=True).expand_as(picture) for picture in pictures]
    owners = torch.tensor([own for own, _ in pairs], dtype=torch.long)
    return Judged(
        originals=pictures,
        guesses=[*guesses, *(pictures[other] for _, other in pairs), *grey],
        owners=torch.cat([judgements.owners, owners, torch.arange(len(pictures))]),
        values=torch.cat([graded, torch.zeros(len(pairs) + len(pictures))]),
        votes=torch.cat([_votes(judgements), torch.full((len(pairs) + len(pictures),), torch.nan)]),
    )


def _votes(judgements: Judgements) -> Tensor:
    """The share of voters who recognised each guess, (K,); NaN of degraded copies where attacks made something too."""
    attacked = {guess.owner for guess in judgements.guesses if guess.attacked}
    return torch.tensor(
        [guess.share if guess.attacked or guess.owner not in attacked else torch.nan for guess in judgements.guesses]
    )


def _others(judgements: Judgements, places: list[int]) -> Iterator[tuple[int, int]]:
    """Each of some originals and the next that shows something else: of its class, else of its data set, else any."""
    originals = judgements.originals
    for place, own in enumerate(places):
        turn = [*places[place + 1 :], *places[:place]]
        kin = [other for other in turn if originals[other].dataset == originals[own].dataset]
        alike = [other for other in kin if originals[other].class_name == originals[own].class_name]
        yield from ((own, other) for other in (alike or kin or turn)[:1])
