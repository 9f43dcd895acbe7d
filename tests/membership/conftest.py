"""A small world to attack: a network that learned fifty digits by heart, and shadows of it."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn

from glasshouse import data
from glasshouse.functional.roc import roc
from glasshouse.membership import Bank, MembershipAttack, Public, Trainer
from glasshouse.training import Recipe, Samples

MEMBERS = 50
RECIPE = Recipe(epochs=100, batch=32, augment=False)


def network(seed: int) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


@dataclass(frozen=True)
class World:
    """Candidates, the first half of them members of ``target``; ``stranger`` was trained on other images."""

    candidates: Tensor
    labels: Tensor
    public: Public
    target: nn.Module
    stranger: nn.Module

    def scores(self, attack: MembershipAttack, model: nn.Module | None = None, seed: int = 0) -> Tensor:
        rng = torch.Generator().manual_seed(seed)
        return attack(model or self.target, self.candidates, self.labels, public=self.public, rng=rng)

    def auc(self, attack: MembershipAttack, model: nn.Module | None = None) -> float:
        scores = self.scores(attack, model).numpy()
        return roc(scores[:MEMBERS], scores[MEMBERS:]).auc


def make_world(seed: int = 0) -> World:
    digits = data.load("digits", split="train")
    images, labels = digits.batch(range(len(digits)))
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(seed))
    asked, public, others = order[: 2 * MEMBERS], order[2 * MEMBERS : -MEMBERS], order[-MEMBERS:]
    trainer = Trainer(build=network, identity="small", recipe=RECIPE)
    target, stranger = (trainer.train(Samples(images[part], labels[part]), seed) for part in (asked[:MEMBERS], others))
    bank = Bank(trainer, size=MEMBERS, seed=seed)
    return World(images[asked], labels[asked], Public(images[public], labels[public], bank), target, stranger)


@pytest.fixture(scope="session")
def world() -> World:
    return make_world()
