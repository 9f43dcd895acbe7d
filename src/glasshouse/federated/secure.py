"""Secure aggregation by Flower's SecAgg+: the server learns the sum of the clients' updates and nothing of one.

Bonawitz et al. 2017, Practical Secure Aggregation; Bell et al. 2020, Secure Single-Server Aggregation with
(Poly)Logarithmic Overhead. Flower has it in its older interface only, so both ends are translated here. What is
summed are changes of weights and not weights: they are small, and the sum is carried in whole numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from flwr.app import Context, Message
from flwr.common import FitIns, FitRes, Parameters, Scalar, bytes_to_ndarray, ndarrays_to_parameters
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS, Key
from flwr.server import LegacyContext, ServerConfig
from flwr.server.client_manager import ClientManager
from flwr.server.client_proxy import ClientProxy
from flwr.server.strategy import Strategy
from flwr.server.workflow import DefaultWorkflow, SecAggPlusWorkflow
from flwr.serverapp import Grid

from glasshouse.federated.clients import Weights
from glasshouse.federated.grid import WatchedGrid
from glasshouse.federated.host import Host
from glasshouse.federated.masks import APART, LEVELS, MODULUS, NAMES
from glasshouse.federated.messages import (
    CLASS_NAMES,
    FIRST,
    LOSS,
    ROUND,
    Roll,
    call_again,
    heard_of,
    instructions,
    reason,
    tensors,
)
from glasshouse.federated.plan import FEWEST_SECURE
from glasshouse.federated.records import Fault, Heard
from glasshouse.federated.vetting import Expected, problem

SHARES = 1.0  # every client keeps a share of every other's secrets
THRESHOLD = 2 / 3  # of the clients must stay; with half or less, a server that tells two stories could unmask one
#: What the arithmetic of SecAgg+ raises where secrets do not fit together, as those of a client that lies.
SPOILED = (ValueError, TypeError, KeyError, IndexError, ArithmeticError)


class SecureFedAvg(Strategy):
    """Federated averaging of which the server sees the masked changes, their sum, image counts and losses."""

    def __init__(self, host: Host, grid: WatchedGrid) -> None:
        self.host = host
        self.grid = grid
        self.first = host.first_round()
        self.weights: Weights = host.initial()
        self.roll = Roll({}, ())
        self.known = set[int]()
        self.heard: list[Heard] = []
        self.spoiled = ""

    def run(self, context: Context) -> None:
        """Carry out the rounds that are left."""
        left = self.host.plan.rounds - self.first
        if left > 0:
            workflow = DefaultWorkflow(fit_workflow=self.one_round)
            workflow(self.grid, LegacyContext(context, ServerConfig(num_rounds=left), self))

    def one_round(self, grid: Grid, context: Context) -> None:
        """Call the roll, for who is gone before the keys are shared would stop the round, and sum the changes."""
        plan, number = self.host.plan, self.host.first_round()
        self.grid.forget()
        self.host.open_round(number, self.weights)
        config = instructions(self.host.class_names, self.first)
        enough = FEWEST_SECURE if self.known else plan.clients  # who has left is not waited for in every round
        self.roll = call_again(self.grid, plan.clients, self.known, config, enough=enough, timeout=plan.timeout)
        self.known |= self.roll.clients
        self.heard, self.spoiled = [], ""
        expected = Expected([value.numel() for value in self.weights.values()], self.roll.present)
        self.grid.vet = lambda asked, reply: problem(asked, reply, expected)
        try:
            RecordedSecAgg(self, max(one.examples for one in self.roll.present.values()))(grid, context)
        except SPOILED as error:
            self.spoiled = f"the sum could not be unmasked ({error!r}): some client lied, and nobody can see which"
        self.host.close_round(number, self.weights, self.heard, self._faults(), self.grid.bytes_sent)

    def _faults(self) -> list[Fault]:
        """Who did not take part, and why."""
        errors = {reply.metadata.src_node_id: reason(reply) for reply in self.grid.errors}
        late = self.spoiled or f"did not reply within {self.host.plan.timeout:g} s, or too few clients were left"
        heard = {one.client for one in self.heard}
        gone = {node: one for node, one in self.roll.present.items() if one.client not in heard}
        return [*self.roll.faults, *(Fault(self.roll.name(node), errors.get(node, late)) for node in gone)]

    def saw(self, number: int, replies: Sequence[Message]) -> None:
        """Keep the masked vectors: all that the server ever sees of one client's update."""
        for reply in replies:
            if reply.has_error():
                continue
            found = reply.content.config_records[RECORD_KEY_CONFIGS][Key.MASKED_PARAMETERS]
            parts = [part for part in found if isinstance(part, bytes)] if isinstance(found, list) else []
            vectors = [torch.from_numpy(bytes_to_ndarray(part).astype(np.int64)) for part in parts]
            names = ["weight of the client", *self.weights]
            present = self.roll.present[reply.metadata.src_node_id]
            self.host.ledger.keep(number, present.client, dict(zip(names, vectors, strict=True)))

    def initialize_parameters(self, client_manager: ClientManager) -> Parameters:
        """The weights to begin with."""
        return _parameters(self.weights)

    def configure_fit(
        self, server_round: int, parameters: Parameters, client_manager: ClientManager
    ) -> list[tuple[ClientProxy, FitIns]]:
        """Ask every client that answered the roll call."""
        config: dict[str, Scalar] = {
            ROUND: server_round,
            FIRST: self.first,
            CLASS_NAMES: APART.join(self.host.class_names),
            NAMES: APART.join(self.weights),
        }
        asked = FitIns(_parameters(self.weights), config)
        return [(proxy, asked) for proxy in client_manager.all().values() if proxy.node_id in self.roll.present]

    def aggregate_fit(
        self, server_round: int, results: list[tuple[ClientProxy, FitRes]], failures: Any
    ) -> tuple[Parameters, dict[str, Any]]:
        """Add the mean change, which each result holds, to the weights that were sent."""
        mean = tensors(list(self.weights), results[0][1].parameters)
        if not all(bool(value.isfinite().all()) for value in mean.values()):
            raise ValueError("the mean is not finite")
        moved = {name: value + mean[name].to(value.dtype).view(value.shape) for name, value in self.weights.items()}
        self.weights = self.host.anew(moved)
        heard = [heard_of(self.roll.present[one.node_id], result.metrics.get(LOSS)) for one, result in results]
        self.heard = sorted(heard, key=lambda one: one.client)
        return _parameters(self.weights), {}

    def configure_evaluate(self, server_round: int, parameters: Parameters, client_manager: ClientManager) -> list[Any]:
        """Clients test nothing."""
        return []

    def aggregate_evaluate(self, server_round: int, results: Any, failures: Any) -> tuple[None, dict[str, Any]]:
        """Clients test nothing."""
        return None, {}

    def evaluate(self, server_round: int, parameters: Parameters) -> None:
        """The host tests the model when a round is closed."""


class RecordedSecAgg(SecAggPlusWorkflow):
    """SecAgg+ with every masked vector written down."""

    def __init__(self, strategy: SecureFedAvg, most_examples: int) -> None:
        plan = strategy.host.plan
        super().__init__(
            SHARES,
            THRESHOLD,
            max_weight=float(most_examples),
            clipping_range=plan.secure_range,
            quantization_range=LEVELS,
            modulus_range=MODULUS,
            timeout=plan.timeout,
        )
        self.strategy = strategy

    def share_keys_stage(self, grid: Grid, context: LegacyContext, state: Any) -> bool:
        """Share keys, and forget who is gone already: nobody has a share of theirs to take a mask off with."""
        going_on = super().share_keys_stage(grid, context, state)
        state.sampled_node_ids = set(state.active_node_ids)
        state.nid_to_neighbours = {
            node: neighbours & state.active_node_ids for node, neighbours in state.nid_to_neighbours.items()
        }
        return going_on

    def collect_masked_vectors_stage(self, grid: Grid, context: LegacyContext, state: Any) -> bool:
        """Collect the masked vectors and keep them."""
        going_on = super().collect_masked_vectors_stage(grid, context, state)
        self.strategy.saw(self.strategy.host.first_round(), self.strategy.grid.replies)
        return going_on


def _parameters(weights: Weights) -> Parameters:
    return ndarrays_to_parameters([value.numpy() for value in weights.values()])
