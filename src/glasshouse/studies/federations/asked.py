"""What a trained federation is asked: how often it is right, and whose images it was trained on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import torch
from torch import nn

from glasshouse import defenses
from glasshouse import membership as membership_room
from glasshouse.federated.clients import network, set_weights
from glasshouse.federated.holdings import dealt, open_test
from glasshouse.federated.plan import Federation
from glasshouse.federated.records import Ledger
from glasshouse.functional.intervals import share_interval
from glasshouse.functional.roc import measure, roc
from glasshouse.membership import Public
from glasshouse.membership.queries import Recalled, View, logits, views
from glasshouse.studies.federation import strangers
from glasshouse.studies.rows import interval_json
from glasshouse.training import Samples
from glasshouse.types import JSON, ImageSpec, Interval

ENOUGH = 1000  # images of each part for a point of a curve over rounds


def alone(view: View) -> Public:
    """An attacker who has nothing but the model, looked at in one way."""
    nothing = torch.empty(0)
    return Public(nothing, nothing, view=view)


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """A trained federation: members and others, and the ways in which its models can be asked."""

    plan: Federation
    ledger: Ledger
    image: ImageSpec
    model: nn.Module
    members: Samples
    others: Samples
    views: dict[str, View]
    answers: dict[tuple[int, str], Recalled] = field(default_factory=dict)

    @classmethod
    def of(cls, plan: Federation, directory: Path, root: Path | None) -> Asked:
        """Gather what the clients that were heard trained on, and test images that no client has."""
        test = open_test(plan, root)
        names = plan.class_names(test.class_names)
        heard = {one.client for facts in Ledger(directory).finished() for one in facts.heard}
        holdings = [dealt(plan, client, names, root) for client in sorted(heard)]
        held = [holding.in_epoch(0) for holding in holdings]
        members = Samples(torch.cat([one.images for one in held]), torch.cat([one.targets for one in held]))
        model = network(plan, holdings[0].spec)
        return cls(
            plan,
            Ledger(directory),
            holdings[0].spec,
            model,
            members,
            strangers(plan, test, root),
            views(defenses.create(plan.defense), plan.seed),
        )

    @property
    def candidates(self) -> Samples:
        """Members, then others."""
        return Samples(
            torch.cat([self.members.images, self.others.images]),
            torch.cat([self.members.targets, self.others.targets]),
        )

    def after(self, rounds: int) -> nn.Module:
        """The global model after so many rounds."""
        set_weights(self.model, self.ledger.sent(rounds))
        return self.model.eval()

    def ways(self, rounds: int) -> dict[str, nn.Module]:
        """The ways to ask the model after so many rounds, each with its answers about members and others."""
        model = self.after(rounds)
        for query, view in self.views.items():
            if (rounds, query) not in self.answers:
                self.answers[rounds, query] = Recalled(view(model), self.candidates.images)
        return {query: self.answers[rounds, query] for query in self.views}

    def accuracy(self, rounds: int, most: int | None = None) -> JSON:
        """How often the model is right, on training and on other images, in each way that it can be asked.

        With ``most`` only so many images of each part are asked about, spread over all of them.
        """
        return {
            query: {
                part: interval_json(_accuracy(way, spread(samples, most)))
                for part, samples in (("train", self.members), ("test", self.others))
            }
            for query, way in self.ways(rounds).items()
        }

    def membership(self, rounds: int, attacks: tuple[str, ...], known: Callable[[View], Public] = alone) -> JSON:
        """How well attacks tell members from others, in each way that the model can be asked, with the ROC curve.

        ``known`` says what the attackers have beside the model.
        """
        ways, asked = self.ways(rounds), self.candidates
        count, found = len(self.members.images), {}
        for query, view in self.views.items():
            public = known(partial(_seen, view, self.model, ways[query]))
            for text in attacks:
                rng = torch.Generator().manual_seed(self.plan.seed)
                attack = membership_room.create(text)
                scores = attack(self.model, asked.images, asked.targets, public=public, rng=rng).numpy()
                values = measure(scores[:count], scores[count:])
                found[f"{text}, {query}"] = {
                    **{name: _estimate_json(value) for name, value in values.items()},
                    "roc": roc(scores[:count], scores[count:]).to_json(),
                }
        return found


def _seen(view: View, own: nn.Module, way: nn.Module, model: nn.Module) -> nn.Module:
    """A model looked at in one way; of the federation's own the answers are remembered."""
    return way if model is own else view(model)


def _estimate_json(value: Interval | None) -> JSON | None:
    """A value with its interval as plain JSON; nothing where it could not be estimated."""
    return None if value is None else interval_json(value)


def spread(samples: Samples, most: int | None) -> Samples:
    """At most so many samples, from the first to the last client: theirs lie one behind the other."""
    count = len(samples.images)
    if most is None or count <= most:
        return samples
    places = torch.arange(most) * count // most
    return Samples(samples.images[places], samples.targets[places])


def _accuracy(model: nn.Module, samples: Samples) -> Interval:
    right = logits(model, samples.images).argmax(1) == samples.targets
    return share_interval(int(right.sum()), len(samples.images))
