"""The contract of adversaries: which client it is, what it is dealt, and what it does in a round."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from torch import Tensor

from glasshouse.registry import Registry

if TYPE_CHECKING:
    from glasshouse.federated.clients import Member, Trained
    from glasshouse.federated.holdings import Holding
    from glasshouse.federated.plan import Federation


class Adversary(ABC):
    """A client who answers the server as every other does, and has a purpose of its own.

    The server and the other clients treat it as one of them. ``extra_classes`` are names of classes that the
    federation was talked into, of which nobody else has an image.
    """

    name: ClassVar[str]
    paper: ClassVar[str]
    extra_classes: ClassVar[tuple[str, ...]] = ()

    client: int

    @abstractmethod
    def refuse(self, class_names: Sequence[str]) -> None:
        """Refuse a federation, by the names of its classes, in which the adversary has nothing to do."""

    def dealt(self, shares: Sequence[Holding]) -> Holding:
        """What the adversary holds, given what the split deals to each client: its share, unless it says otherwise."""
        return shares[self.client]

    @abstractmethod
    def train_round(
        self,
        plan: Federation,
        holding: Holding,
        member: Member,
        number: int,
        received: Mapping[str, Tensor],
        *,
        home: Path,
    ) -> Trained:
        """What the adversary sends after a round; ``home`` is where it keeps what it learned, to go on from there."""


adversaries: Registry[Adversary] = Registry("adversary", "glasshouse.federated.adversaries")
