"""Tuning: an attack's settings for one model and defense, searched where the attacker knows the truth itself.

The objective of an attack contains the weight of its own prior, so it cannot choose that weight. But an attacker has
public images: it protects them as the client does, attacks them, and sees which settings bring back most of them.
"""

from __future__ import annotations

import dataclasses
import hashlib
import logging
from collections.abc import Callable, Sequence
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
from glasshouse.studies.runner import RunProgress, one_by_one, singly, work_off
from glasshouse.types import JSON, Progress, finite_or_none, no_progress

log = logging.getLogger(__name__)

VERSION = 3  # counts changes of the search that change what is chosen
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

    def batch(self, places: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        """The public images (N, C, H, W) and labels (N,) at some places."""
        if self.public is None:
            raise RuntimeError("a bench for practice was built without public images")
        return self.public.images[list(places)], self.public.labels[list(places)]


@dataclass(frozen=True, slots=True)
class Search:
    """A search for settings of an attack on one model in one mode behind one defense, shown by one of its cases."""

    group: str
    case: Case

    def key(self) -> str:
        """What the choice is kept under."""
        return self.group


@dataclass
class Trials:
    """All that a worker needs for searches."""

    bench: PracticeBench
    public: Public
    fixed_steps: bool

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
            return [_choice(one.case, self.bench, self.public, fixed_steps=self.fixed_steps) for one in searches]


def tuned_cases(
    cases: Sequence[Case],
    bench: Bench,
    public: Public,
    choices: Choices,
    *,
    fixed_steps: bool,
    progress: RunProgress,
    executor: Executor | None = None,
    deadline: float = float("inf"),
) -> list[Case]:
    """The same cases with the settings found best for their model, mode and defense; found once, then kept.

    At the deadline, a reading of ``time.monotonic``, no further search begins. Cases that have none yet stay as they
    are, so that they count as to be done; nothing attacks them, because the time is over.
    """
    practice = PracticeBench(bench.directory, bench.pictures, (), bench.specs, bench.module, public=public)
    searches = searches_for(cases, public, fixed_steps=fixed_steps)

    def keep(done: Search, choice: JSON) -> None:
        choices.tuning[done.key()] = choice
        choices.save()

    summary = work_off(
        singly(searches),
        set(choices.tuning),
        Trials(practice, public, fixed_steps),
        executor or Inline(),
        keep=one_by_one(keep),
        fail=_refuse,
        progress=progress,
        deadline=deadline,
    )
    if summary.left:
        counts = summary.left, summary.planned
        log.warning("The time is over: %d of %d attacks are not tuned yet, and are left for later.", *counts)
    return [_settled(case, choices.tuning.get(_group(case, public, fixed_steps))) for case in cases]


def _refuse(key: str, reason: str) -> None:
    raise StudyError(f"An attack could not be tuned: {reason}")


def searches_for(cases: Sequence[Case], public: Public, *, fixed_steps: bool) -> list[Search]:
    """One search for each group of cases that are attacked with the same settings."""
    groups: dict[str, Case] = {}
    for case in cases:
        groups.setdefault(_group(case, public, fixed_steps), case)
    return [Search(group, case) for group, case in groups.items()]


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


def _choice(case: Case, practice: PracticeBench, public: Public, *, fixed_steps: bool) -> JSON:
    """The settings found for one model, mode and defense, and how."""
    batch = len(case.images)
    starts = range(0, max(len(public.images) - batch + 1, 1), batch)
    places = [tuple(range(start, min(start + batch, len(public.images)))) for start in starts]
    images = sum(map(len, places))
    metric = _criterion()
    spent = 0

    def loss(attack: InversionAttack) -> float:
        nonlocal spent
        settings = all_settings(attack)
        spent += images * settings.get("steps", 1) * settings.get("restarts", 1)
        return _loss(dataclasses.replace(case, attack_spec=complete_spec(attack)), places, practice, metric)

    best, tried = search(attacks.create(case.attack_spec), loss, fixed_steps=fixed_steps)
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


def _criterion() -> Metric:
    """The most perceptual metric that can be computed here."""
    grey = torch.full((1, 3, 16, 16), 0.5)
    for name in CRITERIA:
        metric = create(name)
        try:
            if isinstance(metric, Metric):
                metric(grey, grey)
                return metric
        except WeightsError:
            continue
    raise WeightsError(f"None of {', '.join(CRITERIA)} can be computed here: run 'glasshouse weights install'.")


def _group(case: Case, public: Public, fixed_steps: bool) -> str:
    """What cases have in common that are attacked with the same settings, as a key."""
    facts = [VERSION, case.random_seed("tuning", "images", "pictures"), public.digest, fixed_steps]
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:24]


def _settled(case: Case, choice: JSON | None) -> Case:
    """A case with the settings that were chosen for it; without a choice, or settings to search, it stays as it is."""
    if choice is None or len(choice["tried"]) == 1:
        return case
    return dataclasses.replace(case, attack=f"{case.attack} (tuned)", attack_spec=choice["chosen"], tuned=True)
