"""One case: everything that decides one reconstruction, and the key that is the hash of it."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass

from glasshouse.studies.conditions import USUAL, Conditions
from glasshouse.types import JSON, BatchNorm

KEY_VERSION = 1
AS_WRITTEN = ("dataset", "model", "defense", "attack", "tuned")  # what was tuned is in the SPEC


@dataclass(frozen=True, slots=True)
class Case:
    """One shared gradient under one defense, attacked once.

    ``dataset``, ``model``, ``defense`` and ``attack`` are as the user wrote them, for tables. The key covers
    what they mean instead: the complete SPECs, ``weights``, ``pictures`` and ``public`` (hashes of content; the last
    where the attack learns from public images) and ``versions`` (which count changes of the algorithms). A field that
    was added later has a default and counts only where it differs, so that older results are found again.
    """

    dataset: str
    model: str
    defense: str
    attack: str
    architecture: str
    defense_spec: str
    attack_spec: str
    weights: str
    round: str
    batchnorm: BatchNorm
    has_batchnorm: bool
    labels: str
    images: tuple[int, ...]
    pictures: str
    seed: int
    versions: tuple[int, ...]
    public: str = ""
    conditions: Conditions = USUAL
    tuned: bool = False

    def key(self) -> str:
        """The content hash under which the result is kept."""
        return _digest([KEY_VERSION, self._meaning()])

    def described(self) -> JSON:
        """The case as plain JSON."""
        fields = ((field.name, getattr(self, field.name)) for field in dataclasses.fields(self))
        plain = {name: list(value) if isinstance(value, tuple) else value for name, value in fields}
        plain["conditions"] = self.conditions.changed()
        return plain

    def random_seed(self, purpose: str, *without: str) -> int:
        """A seed for one purpose that depends on the case but for some fields.

        A defense's noise must not depend on the attack, else two attacks would face different gradients.
        """
        kept = {name: value for name, value in self._meaning().items() if name not in without}
        return int(_digest([purpose, kept])[:15], 16)

    def _meaning(self) -> JSON:
        """What decides the result; what is as usual stays out."""
        usual = {field.name: field.default for field in dataclasses.fields(self)}
        return {
            name: value
            for name, value in self.described().items()
            if name not in AS_WRITTEN and getattr(self, name) != usual[name]
        }


def _digest(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:32]
