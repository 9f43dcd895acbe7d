"""Federated averaging by Flower, in the order of the clients, without those whose replies cannot be used."""

from __future__ import annotations

from collections.abc import Iterable

from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg

from glasshouse.errors import StudyError
from glasshouse.federated.clients import Weights
from glasshouse.federated.grid import WatchedGrid
from glasshouse.federated.host import Host
from glasshouse.federated.messages import (
    ARRAYS,
    CONFIG,
    ROUND,
    Roll,
    absent,
    call_again,
    from_record,
    instructions,
    read_reply,
    to_record,
)
from glasshouse.federated.records import Fault, Heard


def untold(contents: list[RecordDict], weighted_by: str) -> MetricRecord:
    """No mean of what clients tell: one that tells a list would spoil it, and the host tests the model itself."""
    return MetricRecord()


class RecordedFedAvg(FedAvg):
    """McMahan et al. 2017, with every message written down before it is averaged.

    Flower counts the rounds of a run from 1; ours go on from those that earlier runs finished.
    """

    def __init__(self, host: Host, grid: WatchedGrid, roll: Roll) -> None:
        super().__init__(fraction_evaluate=0.0, min_train_nodes=1, min_available_nodes=1, train_metrics_aggr_fn=untold)
        self.host = host
        self.grid = grid
        self.roll = roll
        self.known = set(roll.clients)
        self.first = host.first_round()
        self.sent: Weights = {}

    def run(self) -> None:
        """Carry out the rounds that are left."""
        rounds = self.host.plan.rounds - self.first
        if rounds > 0:
            config = instructions(self.host.class_names, self.first)
            weights = to_record(self.host.initial())
            self.start(self.grid, weights, rounds, self.host.plan.timeout, config)

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Open a round and ask every client to train."""
        self.sent = from_record(arrays)
        self.grid.forget()
        self.host.open_round(self.first + server_round - 1, self.sent)
        self._call_again()
        config[ROUND] = server_round
        content = RecordDict({ARRAYS: arrays, CONFIG: config})
        return [Message(content, dst_node_id=node, message_type=MessageType.TRAIN) for node in self.roll.present]

    def _call_again(self) -> None:
        """Call the roll anew where other nodes are connected than were called: who starts again is another node.

        Where nobody is, the run waits, and then ends, instead of rounds that nobody takes part in.
        """
        if set(self.grid.get_node_ids()) == self.roll.nodes:
            return
        plan, config = self.host.plan, instructions(self.host.class_names, self.first)
        self.roll = call_again(self.grid, plan.clients, self.known, config, enough=1, timeout=plan.timeout)
        self.known |= self.roll.clients

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Average what can be used, and close the round; where nothing can be, the model stays as it was."""
        number = self.first + server_round - 1
        given = list(replies)
        faults = [*self.roll.faults, *absent(self.roll, given, self.host.plan.timeout)]
        usable: list[tuple[Heard, Message]] = []
        for reply in given:
            node = reply.metadata.src_node_id
            try:
                heard, weights = read_reply(reply, self.sent, self.roll.present[node])
                self.host.ledger.keep(number, heard.client, weights)
                usable.append((heard, reply))
            except StudyError as error:
                faults.append(Fault(self.roll.name(node), str(error)))
        usable.sort(key=lambda one: one[0].client)  # sums of floats depend on their order
        arrays, metrics = super().aggregate_train(server_round, [reply for _, reply in usable])
        begun = self.sent if arrays is None else self.host.anew(from_record(arrays))
        self.host.close_round(number, begun, [heard for heard, _ in usable], faults, self.grid.bytes_sent)
        return to_record(begun), metrics
