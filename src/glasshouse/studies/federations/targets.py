"""Federations to train, each under a key that covers all that decides its result, its data among it."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from glasshouse import defenses, models
from glasshouse import membership as membership_room
from glasshouse.federated.digests import data_digest
from glasshouse.federated.plan import Federation
from glasshouse.federated.splits import splits
from glasshouse.membership.queries import editions
from glasshouse.registry import complete_spec
from glasshouse.studies.federations.plan import Federations
from glasshouse.types import JSON

VERSION = 3  # counts changes that change what is trained or measured
AS_WRITTEN = ("dataset", "test", "model", "defense", "split")  # the key covers what they mean instead
NAMES = ("dataset", "model", "defense", "augment", "seed")
PATIENCE = "timeout"  # which changes no result


@dataclass(frozen=True, slots=True)
class Target:
    """One federation: its plan, a hash of its images and labels, and what it is asked in which rounds.

    ``shadowed`` are attacks with shadow models, which it is asked by after the last round.
    """

    federation: Federation
    data: str
    membership: tuple[str, ...]
    rounds: tuple[int, ...]
    shadowed: tuple[str, ...] = ()

    def key(self) -> str:
        """The content hash under which its results are kept."""
        return _digest([VERSION, self._training(), self._asking()])

    @property
    def folder(self) -> str:
        """The name of the directory that it is trained in: another question needs no other training.

        It covers how the plan is written, because that is what the directory itself holds on to.
        """
        return _digest([VERSION, self._training(), [getattr(self.federation, name) for name in AS_WRITTEN]])[:24]

    @property
    def shadow_count(self) -> int:
        """How many shadow federations the attacks want."""
        return max((membership_room.create(text).shadow_count for text in self.shadowed), default=0)

    def described(self) -> JSON:
        """The target as plain JSON."""
        asked = {"membership": list(self.membership), "rounds": list(self.rounds), "shadowed": list(self.shadowed)}
        return {**self.names(), "data": self.data, **asked}

    def names(self) -> JSON:
        """What tables call it."""
        return {name: getattr(self.federation, name) for name in NAMES}

    def _training(self) -> list[object]:
        """What decides the training: settings, data, and the version numbers of our algorithms."""
        plan = self.federation
        plain = {
            name: value
            for name, value in dataclasses.asdict(plan).items()
            if name not in AS_WRITTEN and name != PATIENCE
        }
        guard = defenses.create(plan.defense)
        specs = [models.models.create(plan.model).meaning, complete_spec(splits.create(plan.split))]
        return [plain, self.data, *specs, guard.complete_spec, list(guard.versions)]

    def _asking(self) -> list[object]:
        facts: list[object] = [_versions(self.membership), list(self.rounds)]
        shadowed = [_versions(self.shadowed)] if self.shadowed else []
        return [*facts, *shadowed, *editions(defenses.create(self.federation.defense))]


def targets_of(plan: Federations, root: Path | None) -> list[Target]:
    """Every federation of a plan; images of one data set are read once for each seed."""
    digests: dict[tuple[object, ...], str] = {}
    found = []
    for federation, shadowed in plan.asked():
        same = federation.dataset, federation.seed
        if same not in digests:
            digests[same] = data_digest(federation, root)
        watched = {number for number in plan.watched if number < federation.rounds}
        rounds = tuple(sorted({*watched, federation.rounds}))
        found.append(Target(federation, digests[same], plan.membership, rounds, shadowed))
    return found


def _versions(attacks: Iterable[str]) -> list[list[object]]:
    """What attacks mean, and the version numbers of their algorithms."""
    found = [membership_room.create(text) for text in attacks]
    return [[complete_spec(one), one.version] for one in found]


def _digest(facts: object) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:32]
