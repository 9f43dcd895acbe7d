"""What a trained federation is asked: how often it is right, and whose images it was trained on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from glasshouse import defenses
from glasshouse import membership as membership_room
from glasshouse.federated.clients import network, set_weights
from glasshouse.federated.holdings import dealt, open_pool
from glasshouse.federated.plan import Federation
from glasshouse.federated.records import Ledger
from glasshouse.functional.intervals import share_interval
from glasshouse.functional.roc import measure, roc
from glasshouse.membership.queries import View, views
from glasshouse.studies.federation import strangers
from glasshouse.training import Samples
from glasshouse.types import JSON, Interval, finite_or_none

BATCH = 256
POINTS = 100  # of a ROC curve that is kept


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """A trained federation: members and others, and the ways in which its models can be asked."""

    plan: Federation
    ledger: Ledger
    model: nn.Module
    members: Samples
    others: Samples
    views: dict[str, View]

    @classmethod
    def of(cls, plan: Federation, directory: Path, root: Path | None) -> Asked:
        """Gather what the clients trained on, and test images that none of them has."""
        test = open_pool(plan.test or plan.dataset, "test", plan.size, root)
        names = plan.class_names(test.class_names)
        holdings = [dealt(plan, client, names, root) for client in range(plan.clients)]
        held = [holding.in_epoch(0) for holding in holdings]
        members = Samples(torch.cat([one.images for one in held]), torch.cat([one.targets for one in held]))
        model = network(plan, holdings[0].spec)
        return cls(
            plan,
            Ledger(directory),
            model,
            members,
            strangers(plan, test, root),
            views(defenses.create(plan.defense), plan.seed),
        )

    def after(self, rounds: int) -> nn.Module:
        """The global model after so many rounds."""
        set_weights(self.model, self.ledger.sent(rounds))
        return self.model.eval()

    def accuracy(self, rounds: int) -> JSON:
        """How often the model is right, on training and on other images, in each way that it can be asked."""
        model = self.after(rounds)
        return {
            query: {
                part: interval_json(_accuracy(view(model), samples))
                for part, samples in (("train", self.members), ("test", self.others))
            }
            for query, view in self.views.items()
        }

    def membership(self, rounds: int, attacks: tuple[str, ...]) -> JSON:
        """How well attacks tell members from others, in each way that the model can be asked, with the ROC curve."""
        model = self.after(rounds)
        images = torch.cat([self.members.images, self.others.images])
        labels = torch.cat([self.members.targets, self.others.targets])
        count, found = len(self.members.images), {}
        for query, view in self.views.items():
            public = membership_room.Public(images[:0], labels[:0], view=view)
            for text in attacks:
                rng = torch.Generator().manual_seed(self.plan.seed)
                scores = membership_room.create(text)(model, images, labels, public=public, rng=rng).numpy()
                values = measure(scores[:count], scores[count:])
                curve = roc(scores[:count], scores[count:]).thinned(POINTS)
                found[f"{text}, {query}"] = {
                    **{name: interval_json(value) for name, value in values.items()},
                    "roc": {"fpr": curve.fpr.tolist(), "tpr": curve.tpr.tolist()},
                }
        return found


def interval_json(value: Interval | None) -> JSON | None:
    """A value with its interval as plain JSON; nothing where it could not be estimated."""
    if value is None:
        return None
    return {name: finite_or_none(getattr(value, name)) for name in ("mean", "low", "high")} | {"images": value.images}


def _accuracy(model: nn.Module, samples: Samples) -> Interval:
    with torch.no_grad():
        pairs = zip(samples.images.split(BATCH), samples.targets.split(BATCH), strict=True)
        right = sum(int((model(images).argmax(1) == labels).sum()) for images, labels in pairs)
    return share_interval(right, len(samples.images))
