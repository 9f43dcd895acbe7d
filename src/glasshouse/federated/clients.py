"""A client's work in one round: train what the server sent on its own images, behind its own defense."""

from __future__ import annotations

import dataclasses
import hashlib
import math
import secrets
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from glasshouse import defenses
from glasshouse.defenses import DefendedClient, Defense
from glasshouse.errors import ModelError
from glasshouse.federated.holdings import Holding
from glasshouse.federated.plan import Federation
from glasshouse.functional.generators import secret_generator
from glasshouse.functional.threads import one_thread
from glasshouse.models import own
from glasshouse.models.batchnorm import batchnorm_layers
from glasshouse.training import Samples, fit
from glasshouse.types import ImageSpec

#: The floating-point entries of a network's state by name: all that clients and server exchange.
Weights = Mapping[str, Tensor]


@dataclass(frozen=True, slots=True)
class Member:
    """A client: its number, and the secret that its keys, its noise and the order of its images follow from.

    One that is ``fresh`` draws noise and order anew whenever it is asked: under noise that came twice, the difference
    of two answers would show what it hides.
    """

    number: int
    secret: bytes = dataclasses.field(repr=False)
    fresh: bool = False

    @classmethod
    def simulated(cls, number: int, seed: int) -> Member:
        """A client whose secret is no secret, so that a seed gives the same federation again."""
        return cls(number, hashlib.sha256(f"glasshouse client {seed} {number}".encode()).digest())

    def seed(self, *facts: object) -> int:
        """A seed for one purpose, which tells nothing about those for others."""
        digest = hashlib.blake2b(repr(facts).encode(), key=self.secret, digest_size=8).digest()
        return int.from_bytes(digest, "big") >> 1

    def generator(self, *facts: object) -> torch.Generator:
        """A generator for one purpose; of a real client none of the 32 bits that a seed of torch's comes down to."""
        if not self.fresh:
            return torch.Generator().manual_seed(self.seed(*facts))
        return secret_generator(hashlib.blake2b(repr(facts).encode(), key=self.secret).digest())

    def generator_once(self, *facts: object) -> torch.Generator:
        """A generator for one purpose and one time alone; in a simulation it is the same again."""
        return self.generator(*facts, secrets.token_bytes(32)) if self.fresh else self.generator(*facts)


@dataclass(frozen=True, slots=True, eq=False)
class Trained:
    """What a client has to share after a round."""

    weights: Weights
    examples: int
    loss: float


class RoundClient(DefendedClient):
    """A client that goes on counting epochs where the round before ended, under a key that stays."""

    def __init__(self, plan: Federation, holding: Holding, member: Member, number: int) -> None:
        guard = defenses.create(plan.defense).with_key(member.generator("key"))
        super().__init__(guard, member.generator_once("defense", number), epoch=number * plan.local_epochs)
        self.holding = holding
        self.number = number
        self.first = self.epoch
        self.rounds = plan.rounds

    def begin(self, steps: int, sample_rate: float, batch: int) -> None:
        """Set the defense up for the steps of all rounds: its promise is about the whole federation."""
        super().begin(steps * self.rounds, sample_rate, batch)

    def samples(self, samples: Samples) -> Samples:
        """What the client trains on in the next epoch: that epoch's own version, where there are several."""
        return super().samples(samples if self.epoch == self.first else self.holding.in_epoch(self.epoch))


def guarded(plan: Federation, examples: int) -> Defense:
    """The plan's defense, set up for a client with so many images over all rounds."""
    batch = min(plan.batch, examples)
    return defenses.create(plan.defense).for_training(
        plan.rounds * plan.recipe.steps(examples), batch / examples, batch
    )


def network(plan: Federation, image: ImageSpec) -> nn.Module:
    """The federation's network with its first weights, as every client's defense changes it."""
    model = own.build(plan.model, image, seed=plan.seed)
    own.inspect(model, image)
    return defenses.create(plan.defense).on_model(model)


def refuse_single(model: nn.Module, holding: Holding) -> None:
    """Refuse a client with one image where batch norm would have a single value to find the spread of."""
    if len(holding) > 1 or not batchnorm_layers(model):
        return
    try:
        with torch.no_grad():
            model.train()(holding.in_epoch(0).images)
    except ValueError as error:
        raise ModelError(
            f"The network cannot train on a client's only image ({error}): give every client two images or more, or "
            "choose a network without batch norm."
        ) from error


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """Copies of what a network shares: counters stay at home, for their mean means nothing."""
    state = model.state_dict()
    return {name: value.detach().clone() for name, value in state.items() if value.is_floating_point()}


def set_weights(model: nn.Module, weights: Weights) -> None:
    """Put shared weights into a network; others than it has are refused."""
    problem = misfit(weights, weights_of(model))
    if problem:
        raise ModelError(f"The weights do not fit the model: {problem}. Use one model everywhere.")
    model.load_state_dict({**model.state_dict(), **weights})


def misfit(weights: Weights, expected: Weights) -> str:
    """What is wrong with weights from elsewhere, or nothing."""
    for what, names in (("lack", set(expected) - set(weights)), ("have the extra", set(weights) - set(expected))):
        if names:
            return f"they {what} '{min(names)}'"
    for name, value in weights.items():
        if value.shape != expected[name].shape:
            return f"'{name}' has shape {tuple(value.shape)} instead of {tuple(expected[name].shape)}"
        if value.dtype != expected[name].dtype:
            return f"'{name}' is {value.dtype} instead of {expected[name].dtype}"
        if not bool(value.isfinite().all()):
            return f"'{name}' holds NaN or infinite values"
    return ""


def train_round(plan: Federation, holding: Holding, member: Member, number: int, received: Weights) -> Trained:
    """Train the received weights for the plan's local epochs; all that is random follows from member and round."""
    return train(plan, RoundClient(plan, holding, member, number), member, received)


def undefended_round(plan: Federation, holding: Holding, member: Member, number: int, received: Weights) -> Trained:
    """The same round as if the plan had no defense: the same network, the same images in the same order."""
    client = RoundClient(dataclasses.replace(plan, defense="none"), holding, member, number)
    client.poisson = defenses.create(plan.defense).poisson  # or batches would be dealt where they were drawn
    return train(plan, client, member, received)


def train(plan: Federation, client: RoundClient, member: Member, received: Weights) -> Trained:
    """Train the received weights as a client, behind that client's own defense."""
    model = network(plan, client.holding.spec)
    set_weights(model, received)
    order = member.generator_once("order", client.number)
    samples = client.holding.in_epoch(client.first)
    with one_thread(), torch.random.fork_rng(devices=[]):
        torch.set_rng_state(member.generator_once("dropout", client.number).get_state())
        there = member.generator_once("dropout on a GPU", client.number)  # where the network lies, there it is drawn
        torch.cuda.manual_seed_all(int(torch.randint(2**62, (), generator=there)))
        every = list(model.parameters())  # also what the server will send anew: a client does not know
        loss = fit(
            model, samples.images, samples.targets, plan.recipe, client=client, decay_at=(), learning=every, rng=order
        )
    promised = bool(client.defense.promise)  # about all that leaves the client, and nothing hides its loss
    return Trained(_shared(model, received, client), len(client.holding), math.nan if promised else loss)


def _shared(model: nn.Module, received: Weights, client: RoundClient) -> Weights:
    """The weights as the client lets them out: a defense of shared gradients acts on what the round changed."""
    weights = weights_of(model)
    change = {name: received[name] - weights[name] for name, value in model.named_parameters() if value.requires_grad}
    changed = client.defense.on_gradients(change, rng=client.rng)
    return {**weights, **{name: received[name] - changed[name] for name in change if changed[name] is not change[name]}}
