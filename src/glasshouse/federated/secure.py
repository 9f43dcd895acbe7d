"""Secure aggregation by Flower's SecAgg+: the server learns the sum of the clients' updates and nothing of one.

Bonawitz et al. 2017, Practical Secure Aggregation; Bell et al. 2020, Secure Single-Server Aggregation with
(Poly)Logarithmic Overhead. Flower has it in its older interface only, so both ends are translated here. What is
summed are changes of weights and not weights: they are small, and the sum is carried in whole numbers.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.client.mod import secaggplus_mod
from flwr.clientapp.typing import ClientAppCallable, Mod
from flwr.common import (
    Code,
    FitIns,
    FitRes,
    Parameters,
    Scalar,
    Status,
    bytes_to_ndarray,
    ndarrays_to_parameters,
    parameters_to_ndarrays,
)
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS, Key, Stage
from flwr.compat.common import recorddict_compat
from flwr.server import LegacyContext, ServerConfig
from flwr.server.client_manager import ClientManager
from flwr.server.client_proxy import ClientProxy
from flwr.server.strategy import Strategy
from flwr.server.workflow import DefaultWorkflow, SecAggPlusWorkflow
from flwr.serverapp import Grid
from torch import Tensor

from glasshouse.errors import ModelError, SettingError
from glasshouse.federated.clients import Weights
from glasshouse.federated.grid import WatchedGrid
from glasshouse.federated.host import Host
from glasshouse.federated.messages import (
    ARRAYS,
    CLASS_NAMES,
    CONFIG,
    EXAMPLES,
    FIRST,
    LOSS,
    METRICS,
    ROUND,
    Roll,
    call_roll,
    from_record,
    heard_of,
    instructions,
    reason,
    to_record,
)
from glasshouse.federated.plan import FEWEST_SECURE
from glasshouse.federated.records import Fault, Heard

log = logging.getLogger(__name__)

SHARES = 1.0  # every client keeps a share of every other's secrets
THRESHOLD = 2 / 3  # of the clients must stay; with half or less, a server that tells two stories could unmask one
RANGE = "secure-range"
NAMES = "names"
APART = "\n"  # the older interface knows no lists


def as_change(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
    """A client mod that stands between SecAgg+ and training: FitIns in, the change of the weights out as FitRes."""
    asked = recorddict_compat.recorddict_to_fitins(message.content, keep_input=True)
    names = str(asked.config[NAMES]).split(APART)
    received = _tensors(names, asked.parameters)
    config = ConfigRecord({name: _whole(asked.config[name]) for name in (FIRST, ROUND)})
    config[CLASS_NAMES] = str(asked.config[CLASS_NAMES]).split(APART)
    message.content = RecordDict({ARRAYS: to_record(received), CONFIG: config})
    content = call_next(message, context).content
    trained, metrics = from_record(content.array_records[ARRAYS]), content.metric_records[METRICS]
    change = {name: trained[name] - received[name] for name in names}
    check_range(change, float(str(asked.config[RANGE])))
    _fix_rounding(change)
    # flat, for SecAgg+ masks numbers without a dimension wrongly
    parameters = ndarrays_to_parameters([change[name].numpy().reshape(-1) for name in names])
    told: dict[str, Scalar] = {LOSS: float(str(metrics[LOSS]))}
    reply = FitRes(Status(Code.OK, ""), parameters, _whole(metrics[EXAMPLES]), told)
    return Message(recorddict_compat.fitres_to_recorddict(reply, keep_input=True), reply_to=message)


def masked(secure: Callable[[Context], bool]) -> Mod:
    """A client mod that lets nothing out but masked changes, where the client's own plan says so.

    A server that asks such a client for its weights in the open gets an error.
    """

    def mod(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
        if not secure(context):
            return call_next(message, context)
        if RECORD_KEY_CONFIGS not in message.content.config_records:
            raise SettingError(
                "The server asks for weights in the open, but this client shares them by secure aggregation only: "
                "start the run with secure-aggregation=true."
            )
        check_asked(message.content.config_records[RECORD_KEY_CONFIGS])
        return secaggplus_mod(message, context, partial(as_change, call_next=call_next))

    return mod


def check_asked(config: Mapping[str, object]) -> None:
    """Refuse a server that would add up too few clients, let half of them unmask one, or take both masks off one."""
    if config.get(Key.STAGE) == Stage.UNMASK:
        lists = [config.get(key) for key in (Key.ACTIVE_NODE_ID_LIST, Key.DEAD_NODE_ID_LIST)]
        nodes = [node for part in lists if isinstance(part, list) for node in part]
        if len(set(nodes)) < len(nodes):
            raise SettingError("The server calls one client present and gone: that would take both its masks off.")
    if config.get(Key.STAGE) != Stage.SETUP:
        return
    clients, shares, threshold = (config.get(key) for key in (Key.SAMPLE_NUMBER, Key.SHARE_NUMBER, Key.THRESHOLD))
    if not isinstance(clients, int) or clients < FEWEST_SECURE:
        raise SettingError(f"The server would add up {clients} clients: {FEWEST_SECURE} or more hide each other.")
    if not isinstance(shares, int) or not isinstance(threshold, int) or 2 * threshold <= shares:
        raise SettingError(f"The server would unmask with {threshold} of {shares} shares: more than half are safe.")


def check_range(change: Weights, limit: float) -> None:
    """Refuse to send what SecAgg+ would clip, or what cannot be added: behind masks nobody would notice."""
    for name, value in change.items():
        if not bool(value.isfinite().all()):
            raise ModelError("Some weight is NaN or infinite, which would spoil the sum: use a smaller --lr.")
        largest = float(value.abs().max()) if value.numel() else 0.0
        if largest > limit:
            log.warning("'%s' changed by %.3g.", name, largest)  # here, for errors travel unmasked
            raise ModelError(
                f"Some weight changed by more than secure aggregation carries ({limit:g}) without clipping: use a "
                "larger --secure-range, or a smaller --lr."
            )


def _fix_rounding(change: Weights) -> None:
    """SecAgg+ rounds at random, by numpy's own generator: seeded by what is rounded, equal changes give equal sums."""
    content = b"".join(value.numpy().tobytes() for value in change.values())
    np.random.seed(zlib.crc32(content))


class SecureFedAvg(Strategy):
    """Federated averaging of which the server sees the masked changes, their sum, image counts and losses."""

    def __init__(self, host: Host, grid: WatchedGrid) -> None:
        self.host = host
        self.grid = grid
        self.first = host.first_round()
        self.weights: Weights = host.initial()
        self.roll = Roll({}, ())
        self.heard: list[Heard] = []

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
        self.roll = call_roll(self.grid, plan.clients, config, timeout=plan.timeout)
        self.heard = []
        RecordedSecAgg(self, max(one.examples for one in self.roll.present.values()))(grid, context)
        self.host.close_round(number, self.weights, self.heard, self._faults(), self.grid.bytes_sent)

    def _faults(self) -> list[Fault]:
        """Who did not take part, and why."""
        errors = {reply.metadata.src_node_id: reason(reply) for reply in self.grid.errors}
        late = f"did not reply within {self.host.plan.timeout:g} s, or too few clients were left"
        heard = {one.client for one in self.heard}
        gone = {node: one for node, one in self.roll.present.items() if one.client not in heard}
        return [*self.roll.faults, *(Fault(self.roll.name(node), errors.get(node, late)) for node in gone)]

    def saw(self, number: int, replies: Sequence[Message]) -> None:
        """Keep the masked vectors: all that the server ever sees of one client's update."""
        for reply in replies:
            if reply.has_error():
                continue
            masked = reply.content.config_records[RECORD_KEY_CONFIGS][Key.MASKED_PARAMETERS]
            vectors = [torch.from_numpy(bytes_to_ndarray(part).astype(np.int64)) for part in _parts(masked)]
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
            RANGE: self.host.plan.secure_range,
        }
        asked = FitIns(_parameters(self.weights), config)
        return [(proxy, asked) for proxy in client_manager.all().values() if proxy.node_id in self.roll.present]

    def aggregate_fit(
        self, server_round: int, results: list[tuple[ClientProxy, FitRes]], failures: Any
    ) -> tuple[Parameters, dict[str, Any]]:
        """Add the mean change, which each result holds, to the weights that were sent."""
        mean = _tensors(list(self.weights), results[0][1].parameters)
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
            timeout=plan.timeout,
        )
        self.strategy = strategy

    def collect_masked_vectors_stage(self, grid: Grid, context: LegacyContext, state: Any) -> bool:
        """Collect the masked vectors and keep them."""
        going_on = super().collect_masked_vectors_stage(grid, context, state)
        self.strategy.saw(self.strategy.host.first_round(), self.strategy.grid.replies)
        return going_on


def _parameters(weights: Weights) -> Parameters:
    return ndarrays_to_parameters([value.numpy() for value in weights.values()])


def _tensors(names: Sequence[str], parameters: Parameters) -> dict[str, Tensor]:
    found = [torch.from_numpy(np.array(one)) for one in parameters_to_ndarrays(parameters)]
    return dict(zip(names, found, strict=True))


def _parts(value: object) -> list[bytes]:
    return [part for part in value if isinstance(part, bytes)] if isinstance(value, list) else []


def _whole(value: object) -> int:
    if not isinstance(value, int):
        raise SettingError(f"The server sent {value!r} where a whole number belongs: use a Glasshouse server.")
    return value
