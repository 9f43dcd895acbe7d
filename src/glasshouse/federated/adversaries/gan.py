"""The participant of the GAN attack: it trains a generator against every global model that it is sent."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from torch import Tensor

from glasshouse import checks
from glasshouse.attacks.gan import Forger
from glasshouse.errors import DataError, UnknownNameError
from glasshouse.federated.adversaries.base import Adversary, adversaries
from glasshouse.federated.adversaries.findings import COLUMNS, Findings
from glasshouse.federated.clients import Member, RoundClient, Trained, network, set_weights, train
from glasshouse.federated.holdings import Holding
from glasshouse.federated.plan import Federation
from glasshouse.functional.threads import one_thread
from glasshouse.registry import setting
from glasshouse.types import ImageSpec

FAKE = "(other)"  # what the extra class is called where the federation agrees on its classes
SHOWN = 8 * COLUMNS  # samples of every round that are kept as pictures


@adversaries.register("gan")
@dataclass(frozen=True, kw_only=True)
class GAN(Adversary):
    """Learns what a class looks like that only others hold, and teaches the global model to see through its fakes."""

    paper: ClassVar[str] = "Hitaj et al. 2017, Deep Models Under the GAN"
    extra_classes: ClassVar[tuple[str, ...]] = (FAKE,)

    target: str = setting("0", "the class that is to be seen, by its name")
    client: int = setting(0, "which client is the adversary")
    steps: int = setting(100, "steps of the generator in every round, 32 samples each")
    fakes: int = setting(100, "samples of every round that are labelled as the extra class and trained on")
    lr: float = setting(1e-3, "step size of Adam for the generator")
    tv: float = setting(0.0, "weight of the total variation of samples: 3 for photographs, none for strokes")
    latent: int = setting(100, "numbers from which the generator makes an image")
    width: int = setting(24, "channels of the generator")

    def __post_init__(self) -> None:
        checks.at_least("client", self.client, 0)
        for name in ("steps", "fakes", "latent", "width"):
            checks.at_least(name, getattr(self, name), 1)
        checks.at_least("lr", self.lr, 1e-9)
        checks.at_least("tv", self.tv, 0)

    def refuse(self, class_names: Sequence[str]) -> None:
        """Refuse a target that is no class of the federation."""
        if self.target not in class_names:
            raise UnknownNameError("class", self.target, class_names)

    def dealt(self, shares: Sequence[Holding]) -> Holding:
        """The adversary's share without images of the target, of which others must hold some."""
        target = shares[self.client].class_names.index(self.target)
        own = shares[self.client].without(target)
        others = [share for client, share in enumerate(shares) if client != self.client]
        if not any(bool((share.labels == target).any()) for share in others):
            raise DataError(
                f"No other client holds an image of class '{self.target}': use more --images or a new seed."
            )
        if len(own) < 2:
            raise DataError(
                f"The adversary is left with {len(own)} images without those of class '{self.target}': "
                "use more --images."
            )
        return own

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
        """Train the generator against the received model, then that model on own images and fakes, without defense.

        The adversary says that it has as many images as it holds: fakes are not counted.
        """
        target = holding.class_names.index(self.target)
        if bool((holding.labels == target).any()):
            raise DataError(f"The adversary holds images of class '{self.target}' itself: choose another target.")
        findings = Findings(home)
        forger = self._forger(holding.spec, member, findings, number)
        with one_thread():
            discriminator = network(plan, holding.spec).eval()
            set_weights(discriminator, received)
            draw = member.generator("forger", number)
            forger.learn(discriminator, target, steps=self.steps, rng=draw, tv=self.tv)
            made = forger.samples(self.fakes, rng=member.generator("fakes", number))
            shown = forger.samples(SHOWN, rng=member.generator("shown"))  # the same latent vectors in every round
        findings.keep(number, forger.state(), shown)
        armed = holding.beside(made, holding.class_names.index(FAKE))
        client = RoundClient(dataclasses.replace(plan, defense="none"), armed, member, number)
        return dataclasses.replace(train(plan, client, member, received), examples=len(holding))

    def _forger(self, image: ImageSpec, member: Member, findings: Findings, number: int) -> Forger:
        """The forger as the round before left it."""
        forger = Forger(image, latent=self.latent, width=self.width, lr=self.lr, seed=member.seed("generator"))
        left = findings.before(number)
        if left is not None:
            forger.restore(left)
        return forger
