"""What travels between server and clients, as Flower's records."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.common import Parameters, parameters_to_ndarrays
from torch import Tensor

from glasshouse.errors import StudyError
from glasshouse.federated.clients import Trained, Weights, misfit
from glasshouse.federated.grid import WatchedGrid
from glasshouse.federated.records import Fault, Heard

ARRAYS = "arrays"
CONFIG = "config"
METRICS = "metrics"
CLASS_NAMES = "class-names"
ROUND = "server-round"  # counted by Flower from 1 in every run
FIRST = "first-round"  # how many rounds earlier runs finished
EXAMPLES = "num-examples"  # Flower weights clients by it
CLIENT = "client"
LOSS = "loss"

#: How Flower begins the reason where Ray lost a client's worker; what a client itself raised is a RayTaskError.
WORKER_DIED = re.compile(r"<class 'ray\.exceptions\.(?!RayTaskError)")

#: What Flower raises where an array is not one.
BROKEN = (ValueError, TypeError, KeyError, EOFError, OSError, RuntimeError, MemoryError, ArithmeticError)


def to_record(weights: Weights) -> ArrayRecord:
    """Named tensors as Flower sends them."""
    return ArrayRecord({name: Array(value.numpy()) for name, value in weights.items()})


def from_record(record: Mapping[str, Array]) -> dict[str, Tensor]:
    """Named tensors as Flower sent them."""
    return {name: torch.from_numpy(array.numpy().copy()) for name, array in record.items()}


def tensors(names: Sequence[str], parameters: Parameters) -> dict[str, Tensor]:
    """Named tensors as Flower's older interface sends them."""
    found = [torch.from_numpy(np.array(one)) for one in parameters_to_ndarrays(parameters)]
    return dict(zip(names, found, strict=True))


def instructions(class_names: Sequence[str], first: int) -> ConfigRecord:
    """What clients are told beside the weights."""
    return ConfigRecord({CLASS_NAMES: list(class_names), FIRST: first})


@dataclass(frozen=True, slots=True)
class Present:
    """A client that answered the roll call."""

    client: int
    examples: int


@dataclass(frozen=True, slots=True)
class Roll:
    """Who is there, by node, and who should have been; ``nodes`` are all that were called."""

    present: Mapping[int, Present]
    faults: tuple[Fault, ...]
    nodes: frozenset[int] = frozenset()

    @property
    def clients(self) -> set[int]:
        """The numbers of the clients that are there."""
        return {one.client for one in self.present.values()}

    def name(self, node: int) -> str:
        """A client's name for people."""
        return f"client {self.present[node].client}" if node in self.present else f"node {node}"


def call_roll(grid: WatchedGrid, clients: int, config: ConfigRecord, *, timeout: float) -> Roll:
    """Wait until all clients are connected or the time is up, and ask each who it is and how many images it has."""
    deadline = time.monotonic() + timeout
    while len(nodes := list(grid.get_node_ids())) < clients and time.monotonic() < deadline:
        grid.pause()
    content = RecordDict({CONFIG: config})
    questions = [Message(content, dst_node_id=node, message_type=MessageType.QUERY) for node in nodes]
    present: dict[int, Present] = {}
    faults: list[Fault] = []
    for reply in grid.send_and_receive(questions, timeout=timeout):
        node = reply.metadata.src_node_id
        try:
            found = _presence(reply)
            if any(found.client == one.client for one in present.values()):
                raise StudyError(f"another node is client {found.client} already: give each its own partition-id")
            present[node] = found
        except StudyError as error:
            faults.append(Fault(f"node {node}", str(error)))
    silent = max(clients, len(nodes)) - len(present) - len(faults)
    faults += [Fault("a client", f"did not answer the roll call within {timeout:g} s")] * silent
    if not present:
        raise StudyError(f"No client is there. {faults[0].client}: {faults[0].reason}")
    return Roll(present, tuple(faults), frozenset(nodes))


def call_again(
    grid: WatchedGrid, clients: int, known: Collection[int], config: ConfigRecord, *, enough: int, timeout: float
) -> Roll:
    """Call the roll anew, waiting for no more clients than are enough: who was known and is not there has left."""
    found = call_roll(grid, enough, config, timeout=timeout)
    faults = [*found.faults, *(Fault(f"client {one}", "has left") for one in sorted(set(known) - found.clients))]
    never = clients - len(found.present) - len(faults)
    faults += [Fault("a client", "is not there")] * max(0, never)
    return Roll(found.present, tuple(faults), found.nodes)


def _presence(reply: Message) -> Present:
    metrics = _metrics(reply, {CLIENT, EXAMPLES})
    client, examples = metrics[CLIENT], metrics[EXAMPLES]
    if not isinstance(client, int) or not isinstance(examples, int) or client < 0 or examples < 1:
        raise StudyError(f"answered the roll call with client {client!r} and {examples!r} images")
    return Present(client, examples)


def _metrics(reply: Message, keys: set[str]) -> MetricRecord:
    """The numbers of a reply; a reply that is an error is raised as what it says."""
    if reply.has_error():
        raise StudyError(reason(reply))
    found = reply.content.metric_records
    if set(found) != {METRICS} or set(found[METRICS]) != keys:
        sent = ", ".join(sorted({key for record in found.values() for key in record})) or "nothing"
        raise StudyError(f"told {sent} instead of {', '.join(sorted(keys))}")
    return found[METRICS]


def reason(reply: Message) -> str:
    """Why a reply is an error, in one line, without what Flower and Ray wrapped around it."""
    given = (reply.error.reason or "").replace("\\n", "\n")
    if WORKER_DIED.match(given):
        return "its worker died twice in a row: too little memory?"
    text = given.rpartition("Message: ")[2].strip("'>\n ")
    return " ".join(text.split()) or f"Flower error {reply.error.code}"


def to_reply(trained: Trained, question: Message) -> Message:
    """What a client replies after training."""
    metrics = MetricRecord({EXAMPLES: trained.examples, LOSS: trained.loss})
    return Message(RecordDict({ARRAYS: to_record(trained.weights), METRICS: metrics}), reply_to=question)


def read_reply(reply: Message, expected: Weights, present: Present) -> tuple[Heard, dict[str, Tensor]]:
    """A client's weights and what it said of them; anything else than weights that fit is raised."""
    metrics = _metrics(reply, {EXAMPLES, LOSS})
    if metrics[EXAMPLES] != present.examples:
        raise StudyError(f"trained on {metrics[EXAMPLES]!r} images, but has {present.examples}")
    if set(reply.content.array_records) != {ARRAYS}:
        raise StudyError(f"sent {len(reply.content.array_records)} records of arrays instead of one")
    try:
        weights = from_record(reply.content.array_records[ARRAYS])
    except BROKEN as error:
        raise StudyError(f"sent what cannot be read ({error})") from error
    problem = misfit(weights, expected)
    if problem:
        raise StudyError(f"sent weights that do not fit: {problem}")
    return heard_of(present, metrics[LOSS]), weights


def heard_of(present: Present, loss: object) -> Heard:
    """What a client told; a loss that is no number is not a number."""
    return Heard(present.client, present.examples, float(loss) if isinstance(loss, int | float) else float("nan"))


def absent(roll: Roll, replies: Iterable[Message], timeout: float) -> list[Fault]:
    """The clients that did not reply."""
    replied = {reply.metadata.src_node_id for reply in replies}
    return [
        Fault(f"client {one.client}", f"did not reply within {timeout:g} s, or has left")
        for node, one in roll.present.items()
        if node not in replied
    ]
