"""Tuning: an attack's settings for one model and defense, searched where the attacker knows the truth itself.

The objective of an attack contains the weight of its own prior, so it cannot choose that weight. But an attacker has
public images: it protects them as the client does, attacks them, and sees which settings bring back most of them.
"""

from __future__ import annotations

import dataclasses
import hashlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from glasshouse import attacks
from glasshouse.attacks.base import InversionAttack
from glasshouse.errors import GlasshouseError, StudyError, WeightsError
from glasshouse.functional.threads import one_thread
from glasshouse.metrics import Metric, create
from glasshouse.registry import all_settings, complete_spec
from glasshouse.studies.bench import Bench
from glasshouse.studies.calibration import Public
from glasshouse.studies.case import Case
from glasshouse.studies.choices import Choices
from glasshouse.studies.executors import Executor, Inline
from glasshouse.studies.runner import RunProgress, one_by_one, silent, singly, work_off
from glasshouse.types import JSON, Progress, finite_or_none, no_progress

log = logging.getLogger(__name__)

VERSION = 4  # counts changes of the search that change what is chosen
CALIBRATION = 6  # public images that every candidate is tried on
STEP_FACTORS = (0.5, 2.0)
PRACTICE = "practice"  # what a case calls its pictures where they are public ones
CRITERIA = ("lpips", "mse")  # the first whose weights are here; low values leak in both

#: How well the attacker likes a candidate, the lower the better.
Loss = Callable[[InversionAttack], float]


@dataclass
class PracticeBench(Bench):
    """The bench of a study with public images in place of the attacked ones."""

    public: Public | None = None

    @property
    def known_images(self) -> Public:
        """The public images, which are there by the time that somebody practises."""
        if self.public is None:
            raise RuntimeError("a bench for practice was built without public images")
        return self.public

    def batch(self, places: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        """The public images (N, C, H, W) and labels (N,) at some places."""
        return self.known_images.images[list(places)], self.known_images.labels[list(places)]


@dataclass(frozen=True, slots=True, eq=False)
class Untuned:
    """Cases of one plan, and the public images on which their attacks are tuned; None where they stay as they are."""

    cases: Sequence[Case]
    public: Public | None
    fixed_steps: bool = False


@dataclass(frozen=True, slots=True)
class Manner:
    """How settings are searched: with other steps too or not, by which metric, and on how many images at once."""

    fixed_steps: bool
    criterion: str
    batch: int


@dataclass(frozen=True, slots=True)
class Search:
    """A search for settings of an attack on one model in one mode behind one defense, shown by one of its cases.

    ``public`` is the digest of the images that it practises on.
    """

    group: str
    case: Case
    manner: Manner
    public: str

    def key(self) -> str:
        """What the choice is kept under."""
        return self.group


@dataclass
class Trials:
    """All that a worker needs for searches: a bench, and public images by their digests."""

    bench: PracticeBench
    publics: Mapping[str, Public]

    @property
    def module(self) -> nn.Module | None:
        """A model given as an object."""
        return self.bench.module

    def packed(self) -> Trials:
        """The same for a machine that cannot read this one's files."""
        return dataclasses.replace(self, bench=self.bench.packed())

    def perform(self, searches: Sequence[Search], progress: Progress) -> list[JSON]:
        """What is found best for each, on one thread: every engine chooses alike."""
        with one_thread():
            return [_choice(one, dataclasses.replace(self.bench, public=self.publics[one.public])) for one in searches]


def tuned_cases(
    parts: Sequence[Untuned],
    bench: Bench,
    choices: Choices,
    *,
    progress: RunProgress,
    executor: Executor | None = None,
    deadline: float = float("inf"),
) -> list[Case]:
    """All cases with the settings found best for their model, mode and defense; found once, then kept.

    At the deadline, a reading of ``time.monotonic``, no further search begins. Cases that have none yet stay as they
    are, so that they count as to be done; nothing attacks them, because the time is over. Cases whose search failed
    stay as they are too, and ``choices.untuned`` says why.
    """
    publics = {part.public.digest: part.public for part in parts if part.public is not None}
    criterion = _criterion() if publics else ""  # here, once: a worker that cannot compute it must not choose by others
    searches = [pair for part in parts for pair in _searches(part, criterion)]
    failed: dict[str, str] = {}

    def keep(done: Search, choice: JSON) -> None:
        choices.tuning[done.key()] = choice
        choices.save()

    summary = work_off(
        singly(search for _, search in searches if search is not None),
        set(choices.tuning),
        Trials(PracticeBench(bench.directory, bench.pictures, (), bench.specs, bench.module), publics),
        executor or Inline(),
        keep=one_by_one(keep),
        fail=failed.__setitem__,
        progress=progress if publics else silent,
        deadline=deadline,
    )
    if len(failed) == summary.planned > 0:
        reason = next(iter(failed.values()))
        raise StudyError(f"{len(failed)} of {summary.planned} attacks could not be tuned. The first: {reason}")
    choices.untuned = {
        case.key(): f"The attack could not be tuned: {failed[one.key()]}"
        for case, one in searches
        if one is not None and one.key() in failed
    }
    if summary.left:
        counts = summary.left, summary.planned
        log.warning("The time is over: %d of %d attacks are not tuned yet, and are left for later.", *counts)
    return [case if one is None else _settled(case, choices.tuning.get(one.key())) for case, one in searches]


def _searches(part: Untuned, criterion: str) -> Iterator[tuple[Case, Search | None]]:
    """Each case with the search that it shares with all that are attacked with the same settings, if there is one."""
    public = part.public
    if public is None:
        yield from ((case, None) for case in part.cases)
        return
    # the last case may have fewer images than the others
    manner = Manner(part.fixed_steps, criterion, max((len(case.images) for case in part.cases), default=1))
    for case in part.cases:
        facts = [VERSION, case.random_seed("tuning", "images", "pictures"), public.digest, manner]
        yield case, Search(hashlib.sha256(repr(facts).encode()).hexdigest()[:24], case, manner, public.digest)


def search(attack: InversionAttack, loss: Loss, *, fixed_steps: bool) -> tuple[InversionAttack, list[JSON]]:
    """One setting after another, each with all values worth trying; the best attack, and all that were tried."""
    best = attack.tunable()
    losses = {best: loss(best)}
    for name, values in _grid(best, fixed_steps):
        for value in values:
            other = dataclasses.replace(best, **{name: value})  # type: ignore[type-var]
            if other not in losses:
                losses[other] = loss(other)
        best = min(losses, key=lambda one: losses[one])
    return best, [{"attack": complete_spec(one), "loss": finite_or_none(value)} for one, value in losses.items()]


def _grid(attack: InversionAttack, fixed_steps: bool) -> list[tuple[str, tuple[Any, ...]]]:
    """The settings to search in order, with their values; steps come last."""
    steps = all_settings(attack).get("steps")
    if steps is None or fixed_steps or not attack.grid:
        return list(attack.grid)
    return [*attack.grid, ("steps", tuple(max(1, round(steps * factor)) for factor in STEP_FACTORS))]


def _choice(search_for: Search, practice: PracticeBench) -> JSON:
    """The settings found for one model, mode and defense, and how."""
    case, manner, public = search_for.case, search_for.manner, practice.known_images
    starts = range(0, max(len(public.images) - manner.batch + 1, 1), manner.batch)
    places = [tuple(range(start, min(start + manner.batch, len(public.images)))) for start in starts]
    images = sum(map(len, places))
    metric = _metric(manner.criterion)
    spent = 0

    def loss(attack: InversionAttack) -> float:
        nonlocal spent
        settings = all_settings(attack)
        spent += images * settings.get("steps", 1) * settings.get("restarts", 1)
        return _loss(dataclasses.replace(case, attack_spec=complete_spec(attack)), places, practice, metric)

    best, tried = search(attacks.create(case.attack_spec), loss, fixed_steps=manner.fixed_steps)
    return {
        "round": case.round,
        "batchnorm": case.batchnorm,
        "defense": case.defense,
        "attack": case.attack,
        "chosen": complete_spec(best),
        "criterion": f"{metric.name} of {images} public images ({public.origin})",
        "image_steps": spent,
        "tried": tried,
    }


def _loss(case: Case, places: Sequence[tuple[int, ...]], practice: PracticeBench, metric: Metric) -> float:
    """How far public images, protected and attacked like private ones, are from their truth; infinite if that fails."""
    # noise and starts of its own: those of the attacked images are nothing that an attacker can practise on
    cases = [dataclasses.replace(case, images=own, pictures=PRACTICE) for own in places]
    try:
        outcomes = practice.perform(cases, no_progress)
    except GlasshouseError:
        return float("inf")
    pictures = [torch.from_numpy(pixels.copy()) for outcome in outcomes for pixels in outcome.pixels]
    guesses = torch.stack(pictures).permute(0, 3, 1, 2).float() / 255
    truth = practice.batch(tuple(place for own in places for place in own))[0]
    return float(metric(truth, guesses).mean())


def _criterion() -> str:
    """The most perceptual metric that can be computed here."""
    for name in CRITERIA:
        try:
            _metric(name)
        except WeightsError:
            continue
        return name
    raise WeightsError(f"None of {', '.join(CRITERIA)} can be computed here: run 'glasshouse weights install'.")


def _metric(name: str) -> Metric:
    """A metric of single images that was tried; it raises where its weights are missing."""
    metric, grey = create(name), torch.full((1, 3, 16, 16), 0.5)
    if not isinstance(metric, Metric):
        raise TypeError(f"{name} is a metric of sets")
    metric(grey, grey)
    return metric


def _settled(case: Case, choice: JSON | None) -> Case:
    """A case with the settings that were chosen for it; without a choice, or settings to search, it stays as it is."""
    if choice is None or len(choice["tried"]) == 1:
        return case
    return dataclasses.replace(case, attack=f"{case.attack} (tuned)", attack_spec=choice["chosen"], tuned=True)
