"""Fit a SemSim network to judgements, deterministically by seed, with early stopping on originals it never saw."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from glasshouse import checks
from glasshouse.errors import DataError, ModelError
from glasshouse.functional.intervals import mean_interval
from glasshouse.semsim.calibration import logistic_line
from glasshouse.semsim.losses import LOSSES, RECOGNISED, surely_ordered
from glasshouse.semsim.network import Images, Network
from glasshouse.types import Interval, Progress, no_progress

FEWEST = 10  # originals; with fewer nothing can be held out

#: Distances (K,) of the guesses at some places to their originals, for autograd to derive.
Measure = Callable[[Tensor], Tensor]


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """M originals, K guesses, whose guess each is (K,), and how recognisable (K,) in [0, 1].

    Images are (C, H, W) of any sizes, in [0, 1]; those of one size may stand in one tensor. ``votes`` (K,) are the
    shares of judges who recognised each guess, NaN where nobody was asked or the answer tells nothing of attacks; where
    there are none, ``values`` are votes.
    """

    originals: Images
    guesses: Images
    owners: Tensor
    values: Tensor
    votes: Tensor | None = None

    @property
    def said(self) -> Tensor:
        """What judges said of each guess, (K,)."""
        return self.values if self.votes is None else self.votes

    def __post_init__(self) -> None:
        sizes = {len(self.guesses), len(self.owners), len(self.values)}
        if len(sizes) != 1:
            raise DataError(f"Guesses, owners and values differ in number {sorted(sizes)}: give one of each per guess.")
        if len(self.guesses) and not bool(((self.values >= 0) & (self.values <= 1)).all()):
            raise DataError("A judgement lies outside [0, 1]: give the share of judges who recognised each guess.")

    def refuse_useless(self) -> None:
        """Raise unless there is something to learn: enough originals, and guesses that were and were not recognised."""
        if len(self.originals) < FEWEST:
            raise DataError(
                f"{len(self.originals)} originals are too few to learn from: collect judgements on at least {FEWEST}."
            )
        recognised = int((self.values > RECOGNISED).sum())
        if recognised in (0, len(self.values)):
            which = "every" if recognised else "no"
            raise DataError(
                f"The votes are one-sided: {which} one of {len(self.values)} reconstructions was recognised. "
                "Add weaker or stronger attacks, so that some are recognised and some are not."
            )


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How to train; ``paper`` has the published numbers, the defaults are for minutes on a plain machine."""

    loss: str = "rank"
    margin: float = 1.0
    epochs: int | None = None  # None for the network's own; 0 leaves it as it is, but for the calibration
    batch: int = 32
    lr: float | None = None  # None for the network's own
    momentum: float | None = None  # None for Adam
    weight_decay: float = 1e-4
    held_out: float = 0.2
    patience: int = 15
    seed: int = 0

    def __post_init__(self) -> None:
        checks.one_of("loss", self.loss, tuple(LOSSES))
        checks.between("margin", self.margin, 1e-6, 2)
        if self.epochs is not None:
            checks.at_least("epochs", self.epochs, 0)
        checks.at_least("batch", self.batch, 1)
        if self.lr is not None:
            checks.at_least("lr", self.lr, 1e-9)
        checks.between("held_out", self.held_out, 0.05, 0.5)
        checks.at_least("patience", self.patience, 1)
        checks.whole("seed", self.seed, 0, checks.MOST_SEED)

    def epochs_of(self, network: Network) -> int:
        """How many passes a network is trained for at most."""
        return network.epochs if self.epochs is None else self.epochs

    def parts(self, originals: int, rng: torch.Generator) -> tuple[Tensor, Tensor]:
        """The places of the originals that teach, and of those that are held out."""
        mixed = torch.randperm(originals, generator=rng)
        cut = max(round(self.held_out * originals), 1)
        return mixed[cut:], mixed[:cut]

    @classmethod
    def paper(cls, seed: int = 0) -> Recipe:
        """Triplet loss with margin 1, lr 0.1, batch 128, 200 epochs (section 5)."""
        return cls(loss="triplet", epochs=200, batch=128, lr=0.1, momentum=0.9, weight_decay=5e-4, seed=seed)


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """How a training went: epochs until the best, and what it is worth on originals that it never knew.

    ``predicted``, ``judged`` and ``owners`` (H,) are, of the guesses that judges were asked about, of originals that
    neither training, stopping nor calibration knew (of all that training did not, where these are very few), the
    calibrated probabilities, the shares of judges who recognised them, and whose guesses they are. ``order`` is the
    share of pairs of guesses of one original, clearly apart to the judges, that are in the right order: the mean over
    originals that neither training nor stopping knew, with its 95 % interval; None where there is no such pair.
    """

    epochs: int
    order: Interval | None
    originals: int
    guesses: int
    predicted: Tensor
    judged: Tensor
    owners: Tensor


def fit(network: Network, judged: Judged, recipe: Recipe, *, progress: Progress = no_progress) -> Fitted:
    """Train a network in place on judged guesses and calibrate it; return how it went."""
    judged.refuse_useless()
    rng = torch.Generator().manual_seed(recipe.seed)
    taught, held = recipe.parts(len(judged.originals), rng)
    stopping, calibrating, plotted = (part if len(part) else held for part in (held[k::3] for k in range(3)))
    measure = network.measure(judged.originals, judged.guesses, judged.owners)
    lr, epochs = recipe.lr or network.lr, recipe.epochs_of(network)
    optimizer = _optimizer(network, lr, recipe)
    together = max(1, min(recipe.batch, network.pairs * len(judged.originals) // len(judged.guesses)))
    best = -1.0 if epochs else _order(network, measure, judged, stopping)
    best_epoch, kept = 0, copy.deepcopy(network.state_dict())
    for epoch in range(epochs):
        network.train()
        for places in _batches(taught, judged.owners, together, rng):
            loss = LOSSES[recipe.loss](measure(places), judged.values[places], judged.owners[places], recipe.margin)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        score = _order(network, measure, judged, stopping)
        if math.isnan(score):
            raise ModelError(f"Training diverged in epoch {epoch + 1}: use a smaller --lr than {lr:g}.")
        if score > best:
            best, best_epoch, kept = score, epoch + 1, copy.deepcopy(network.state_dict())
        progress((epoch + 1) / epochs)
        if epoch + 1 - best_epoch >= recipe.patience:
            break
    network.load_state_dict(kept)
    network.eval()
    distances, places = _asked(network, measure, judged, calibrating)
    network.calibration.copy_(logistic_line(distances, judged.said[places]))
    distances, places = _asked(network, measure, judged, plotted)
    return Fitted(
        epochs=best_epoch,
        order=_order_of_each(network, measure, judged, torch.cat([calibrating, plotted]).unique()),
        originals=len(judged.originals),
        guesses=len(judged.guesses),
        predicted=network.probabilities(distances),
        judged=judged.said[places],
        owners=judged.owners[places],
    )


def _order_of_each(network: Network, measure: Measure, judged: Judged, originals: Tensor) -> Interval | None:
    """The share of pairs in the right order among what judges were asked about, each original by itself."""
    distances, places = _asked(network, measure, judged, originals)
    said, owners = judged.said[places], judged.owners[places]
    each = [in_order(distances[own], said[own], owners[own]) for own in owners == owners.unique()[:, None]]
    known = [share for share in each if not math.isnan(share)]
    return mean_interval(known, within=(0, 1)) if known else None


def in_order(distances: Tensor, values: Tensor, owners: Tensor) -> float:
    """Share of pairs of guesses of one original, of clearly different grades, whose distances have the right order."""
    first, second, _ = surely_ordered(values, owners)
    right = (distances[first] < distances[second]).double() + 0.5 * (distances[first] == distances[second]).double()
    return float(right.mean()) if len(first) else math.nan


def _order(network: Network, measure: Measure, judged: Judged, originals: Tensor) -> float:
    """How many pairs of some originals are in the right order; without pairs, half, and without distances, NaN."""
    found, places = _measured(network, measure, judged, originals)
    if not bool(found.isfinite().all()):
        return math.nan
    share = in_order(found, judged.values[places], judged.owners[places])
    return 0.5 if math.isnan(share) else share


def _measured(network: Network, measure: Measure, judged: Judged, originals: Tensor) -> tuple[Tensor, Tensor]:
    """Distances of all guesses of some originals, and their places."""
    network.eval()
    places = torch.isin(judged.owners, originals).nonzero().flatten()
    with torch.no_grad():
        return torch.cat([measure(part) for part in places.split(256)]), places


def _asked(network: Network, measure: Measure, judged: Judged, originals: Tensor) -> tuple[Tensor, Tensor]:
    """The same of the guesses that judges were asked about."""
    distances, places = _measured(network, measure, judged, originals)
    known = ~judged.said[places].isnan()
    return distances[known], places[known]


def _optimizer(network: nn.Module, lr: float, recipe: Recipe) -> torch.optim.Optimizer:
    trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
    if recipe.momentum is None:
        return torch.optim.AdamW(trained, lr=lr, weight_decay=recipe.weight_decay)
    return torch.optim.SGD(trained, lr=lr, momentum=recipe.momentum, weight_decay=recipe.weight_decay)


def _batches(originals: Tensor, owners: Tensor, size: int, rng: torch.Generator) -> Iterator[Tensor]:
    """Places of all guesses of so many originals at once, shuffled anew."""
    for part in originals[torch.randperm(len(originals), generator=rng)].split(size):
        places = torch.isin(owners, part).nonzero().flatten()
        if len(places) > 1:
            yield places
