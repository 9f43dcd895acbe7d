"""A trained target and its shadows: trained once, kept, and attacked in every way that the target can be asked."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from glasshouse import models
from glasshouse.functional.intervals import share_interval
from glasshouse.functional.roc import Curve, measure, roc
from glasshouse.membership import Bank, MembershipAttack, Public, Shadows, Trainer
from glasshouse.membership.queries import View, views
from glasshouse.membership.shadows import derived
from glasshouse.models import own
from glasshouse.registry import complete_spec
from glasshouse.studies.candidates import Dealt
from glasshouse.studies.runner import RunProgress
from glasshouse.training import Samples, accuracy
from glasshouse.types import ImageSpec, Interval, Progress


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """How well one attack told members of one target, asked in one way."""

    defense: str
    query: str
    attack: str
    attack_spec: str
    values: dict[str, Interval | None]
    curve: Curve


@dataclass(frozen=True, slots=True)
class Target:
    """A target asked in one way: how often it is right, on images it was trained on and on others."""

    defense: str
    defense_spec: str
    promise: str
    query: str
    train_accuracy: Interval
    test_accuracy: Interval


@dataclass(frozen=True, slots=True, eq=False)
class Trained:
    """A target behind one defense and the shadows that are trained like it, or are still to be."""

    defense: str
    dealt: Dealt
    bank: Bank
    shadows: Shadows | None
    given: Path | None
    seed: int

    @classmethod
    def prepare(
        cls, defense: str, trainer: Trainer, dealt: Dealt, folder: Path, *, shadows: int, given: Path | None, seed: int
    ) -> Trained:
        """Set everything up, and refuse what cannot work before anything is trained."""
        own.inspect(trainer.blank(dealt.trained).eval(), dealt.spec)
        bank = Bank(trainer, folder=folder, size=dealt.shadow_size, seed=seed)
        found = bank.shadows(dealt.candidates, dealt.public, shadows) if shadows else None
        trained = cls(defense, dealt, bank, found, given, seed)
        if given is not None:
            trained.model()
        return trained

    @property
    def models(self) -> int:
        """How many models are to be trained in all."""
        return (self.given is None) + (0 if self.shadows is None else len(self.shadows))

    @property
    def name(self) -> str:
        """The name that the target is kept under."""
        return f"target-{self.bank.key(self.dealt.members)}"

    def missing(self) -> list[int]:
        """What is not trained yet: the target is -1, shadows have their numbers."""
        target = [] if self.given is not None or self.bank.holds(self.name) else [-1]
        return target + ([] if self.shadows is None else self.shadows.missing())

    def train(self, number: int, progress: Progress) -> None:
        """Train one of the missing models and keep it."""
        if number >= 0 and self.shadows is not None:
            self.shadows.train_one(number, progress)
        else:
            trained = self.bank.trainer.train(self.dealt.members, derived("target", self.seed), progress)
            self.bank.keep(self.name, trained)

    def model(self) -> nn.Module:
        """The trained target."""
        if self.given is None:
            return self.bank.get(self.name, self.dealt.trained)
        model = self.bank.trainer.blank(self.dealt.trained)
        own.load_weights(model, self.given)
        return model.eval()

    @property
    def views(self) -> dict[str, View]:
        """The ways to ask the target."""
        return views(self.bank.trainer.defense, derived("query", self.seed))

    def targets(self) -> list[Target]:
        """How often the target is right, for each way to ask it."""
        guard = self.bank.trainer.guard(self.dealt.trained)
        found = []
        for query, view in self.views.items():
            right = (accuracy_interval(view(self.model()), part) for part in (self.dealt.members, self.dealt.others))
            found.append(Target(self.defense, guard.complete_spec, guard.promise, query, *right))
        return found

    def attacked(self, attacks: Sequence[tuple[str, MembershipAttack]]) -> list[Row]:
        """Attack the target in every way it can be asked."""
        model, asked, public = self.model(), self.dealt.candidates, self.dealt.public
        members, found = len(self.dealt.members.images), []
        for query, view in self.views.items():
            held = Public(public.images, public.targets, self.bank, view)
            for text, attack in attacks:
                rng = torch.Generator().manual_seed(derived("attack", self.seed, text))
                scores = attack(model, asked.images, asked.targets, public=held, rng=rng).numpy()
                parts = scores[:members], scores[members:]
                found.append(Row(self.defense, query, text, complete_spec(attack), measure(*parts), roc(*parts)))
        return found


def accuracy_interval(model: nn.Module, samples: Samples) -> Interval:
    """How often a model is right about samples, with its interval."""
    count = len(samples.images)
    return share_interval(round(accuracy(model, samples.images, samples.targets) * count), count)


def identity(model: str, spec: ImageSpec) -> str:
    """What a model is, beyond its weights."""
    if own.is_own(model):
        file, _, factory = model.rpartition(":")
        if Path(file).is_file():
            return f"{factory} {hashlib.sha256(Path(file).read_bytes()).hexdigest()}"
        return model
    return f"{models.models.create(model).meaning} {spec}"


def train(targets: Sequence[Trained], minutes: float | None, progress: RunProgress) -> int:
    """Train what is missing, one model after another; return how many are left when the time is over."""
    deadline = float("inf") if minutes is None else time.monotonic() + 60 * minutes
    jobs = [(one, name) for one in targets for name in one.missing()]
    total = sum(one.models for one in targets)
    found = total - len(jobs)
    progress(found, total)
    for done, (one, name) in enumerate(jobs, start=found):
        if time.monotonic() >= deadline:
            return total - done
        one.train(name, lambda share, done=done: progress(done + share, total))  # type: ignore[misc]
    return 0
