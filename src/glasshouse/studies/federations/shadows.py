"""Shadow federations: what an attacker trains at home, just as the clients trained, to know how members look."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from glasshouse import defenses
from glasshouse.federated.clients import Member, Trained, network, set_weights, train_round, weights_of
from glasshouse.federated.holdings import Holding, Pool, dealt, open_pool
from glasshouse.federated.plan import Federation
from glasshouse.federated.splits import splits
from glasshouse.membership import Bank, Public, Shadows, Trainer
from glasshouse.membership import create as create_attack
from glasshouse.membership.queries import View
from glasshouse.membership.shadows import derived
from glasshouse.models import own
from glasshouse.studies.federations.asked import Asked, spread
from glasshouse.studies.materials import unlike
from glasshouse.studies.trained import identity
from glasshouse.training import Samples
from glasshouse.types import JSON, ImageSpec, Progress, no_progress

MOST_PUBLIC = 1000  # images that RMIA compares with
#: Settings of a federation, beside those of a client's training, that decide what it makes of images.
DECISIVE = ("clients", "rounds", "local_epochs", "split")


@dataclass(frozen=True, kw_only=True)
class FederatedTrainer(Trainer):
    """Trains a network as a federation does: images are dealt to clients, whose weights are averaged every round.

    No message travels, for the attacker plays every client itself.
    """

    plan: Federation
    image: ImageSpec

    def __post_init__(self) -> None:
        """Nothing is refused: what a defense does to shared updates is done here as well."""

    @classmethod
    def of(cls, plan: Federation, image: ImageSpec) -> FederatedTrainer:
        """The trainer of a federation's shadows."""
        decisive = {name: getattr(plan, name) for name in DECISIVE}
        return cls(
            build=lambda seed: own.build(plan.model, image, seed=seed),
            identity=f"{identity(plan.model, image)} {decisive}",
            recipe=dataclasses.replace(plan.recipe, epochs=plan.epochs),
            defense=defenses.create(plan.defense),
            plan=plan,
            image=image,
        )

    def train(self, samples: Samples, seed: int, progress: Progress = no_progress) -> nn.Module:
        """A network trained on some images, in eval mode; the seed decides all that is random."""
        plan = dataclasses.replace(self.plan, seed=seed)
        holdings = self._dealt(plan, samples)
        model = network(plan, self.image)
        weights = weights_of(model)
        for number in range(plan.rounds):
            weights = averaged(
                [
                    train_round(plan, holding, Member.simulated(client, seed), number, weights)
                    for client, holding in enumerate(holdings)
                ]
            )
            progress((number + 1) / plan.rounds)
        set_weights(model, weights)
        return model.eval()

    def _dealt(self, plan: Federation, samples: Samples) -> list[Holding]:
        labels = samples.targets.tolist()
        names = tuple(map(str, range(self.image.classes)))
        pool = Pool("shadow images", labels, names, self.image, lambda places, epoch: samples.images[list(places)])
        parts = splits.create(plan.split)(labels, plan.clients, seed=plan.seed)
        return [Holding.of(pool, part, names) for part in parts]


def averaged(trained: Sequence[Trained]) -> dict[str, Tensor]:
    """The mean of the clients' weights, each counting as often as it has images (McMahan et al. 2017)."""
    total = sum(one.examples for one in trained)
    return {
        name: torch.stack([one.weights[name] * (one.examples / total) for one in trained]).sum(0)
        for name in trained[0].weights
    }


@dataclass(frozen=True, slots=True, eq=False)
class Shadowed:
    """A trained federation and its shadows: as many others as members are asked about, and some images are public."""

    asked: Asked
    attacks: tuple[str, ...]
    bank: Bank
    public: Samples
    shadows: Shadows

    @classmethod
    def of(cls, asked: Asked, attacks: tuple[str, ...], folder: Path, root: Path | None) -> Shadowed:
        """Deal what shadows are trained on; each is kept in a folder, and found there again."""
        plan = asked.plan
        others = spread(asked.others, len(asked.members.images))
        asked = dataclasses.replace(asked, others=others, answers={})  # asked anew, as the shadows will be
        public = unused(plan, asked.candidates, root)
        most = (len(asked.candidates.images) + len(public.images)) // 2
        trainer = FederatedTrainer.of(plan, asked.image)
        bank = Bank(trainer, folder, size=min(len(asked.members.images), most), seed=plan.seed)
        count = max(create_attack(text).shadow_count for text in attacks)
        return cls(asked, attacks, bank, public, bank.shadows(asked.candidates, public, count))

    def train(self, deadline: float, progress: Progress) -> bool:
        """Train what is missing, and say whether all is there; no further shadow begins at the deadline."""
        count = len(self.shadows)
        for number in self.shadows.missing():
            if time.monotonic() >= deadline:
                return False
            self.shadows.train_one(number, partial(_tell, progress, number, count))
        return True

    def membership(self, rounds: int) -> JSON:
        """How well the attacks tell members, once every shadow is trained."""

        def known(view: View) -> Public:
            return Public(self.public.images, self.public.targets, self.bank, view)

        return self.asked.membership(rounds, self.attacks, known)


def _tell(progress: Progress, number: int, count: int, share: float) -> None:
    progress((number + share) / count)


def unused(plan: Federation, candidates: Samples, root: Path | None) -> Samples:
    """Training images that no client has and nobody is asked about, drawn by the seed: the attacker's own."""
    pool = open_pool(plan.dataset, "train", plan.size, root)
    held = {place for client in range(plan.clients) for place in dealt(plan, client, pool.class_names, root).places}
    rng = torch.Generator().manual_seed(derived("public", plan.seed))
    order = [place for place in torch.randperm(len(pool.labels), generator=rng).tolist() if place not in held]
    places = order[:MOST_PUBLIC]
    images = pool.read(places, 0) if places else candidates.images[:0]
    fresh = torch.tensor(unlike(images, candidates.images), dtype=torch.bool)
    return Samples(images[fresh], torch.tensor([pool.labels[place] for place in places], dtype=torch.long)[fresh])
