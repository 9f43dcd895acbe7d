"""The Flower apps: one for clients and one for the server, the same in a simulation and in a deployment."""

from __future__ import annotations

import dataclasses
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from flwr.app import ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.clientapp.typing import Mod
from flwr.serverapp import Grid, ServerApp

from glasshouse.errors import SettingError
from glasshouse.federated.clients import Member, Trained, Weights, network, refuse_single, train_round
from glasshouse.federated.grid import WatchedGrid, nothing_done
from glasshouse.federated.holdings import Holding, dealt
from glasshouse.federated.host import Host
from glasshouse.federated.masks import Terms, masked
from glasshouse.federated.messages import (
    ARRAYS,
    CLASS_NAMES,
    CLIENT,
    CONFIG,
    EXAMPLES,
    FIRST,
    METRICS,
    ROUND,
    call_roll,
    from_record,
    instructions,
    to_reply,
)
from glasshouse.federated.plan import Federation
from glasshouse.federated.secure import SecureFedAvg
from glasshouse.federated.strategy import RecordedFedAvg

ANSWERED = "glasshouse.answered"


@dataclass(frozen=True)
class Participant:
    """All that a client knows when a message comes: the plan, who it is, how to open its images, and what to do.

    ``most_images`` is how many images of one client secure aggregation may count, if the client minds; ``patience`` is
    how many seconds the server waits, where both read one clock.
    """

    plan: Federation
    member: Member
    open: Callable[[list[str]], Holding]
    train: Callable[[Federation, Holding, Member, int, Weights], Trained] = train_round
    most_images: int | None = None
    patience: float = math.inf

    @property
    def terms(self) -> Terms:
        """On what it shares."""
        return Terms(self.plan.secure_aggregation, self.plan.secure_range, self.most_images)

    def refuse_late(self, message: Message) -> None:
        """Leave the worker to those who are waited for, when this answer is not any more."""
        if time.time() > message.metadata.created_at + self.patience:
            raise SettingError("Nobody waits for this answer any more.")

    def holding(self, config: Mapping[str, object]) -> Holding:
        """The client's images, under the federation's class names."""
        names = config.get(CLASS_NAMES)
        if not isinstance(names, list):
            raise SettingError("The server sent no class names: use a Glasshouse server.")
        return self.open([str(name) for name in names])


#: Finds out who a client is from what Flower knows of its node.
Introduce = Callable[[Context], Participant]


def simulated(plan: Federation, root: Path | None, directory: Path) -> Introduce:
    """Clients of a simulation: each has its share of one data set; an adversary keeps its findings in a directory."""

    def introduce(context: Context) -> Participant:
        number = int(str(context.node_config["partition-id"]))
        member = Member.simulated(number, plan.seed)
        opened = partial(dealt, plan, number, root=root)
        one = Participant(plan, member, opened, patience=plan.timeout)
        adversary = plan.adversary_at(number)
        if adversary is None:
            return one
        return dataclasses.replace(one, train=partial(adversary.train_round, home=directory))

    return introduce


def client_app(introduce: Introduce, *, mods: Sequence[Mod] = ()) -> ClientApp:
    """A Flower app that answers the roll call and trains; mods see what training made before it is masked."""
    app = ClientApp()

    @app.query()
    def answer(message: Message, context: Context) -> Message:
        """Say who this is and how many images it has, having looked whether training can work."""
        one = introduce(context)
        one.refuse_late(message)
        holding = one.holding(message.content.config_records[CONFIG])
        refuse_single(network(one.plan, holding.spec), holding)
        metrics = MetricRecord({CLIENT: one.member.number, EXAMPLES: len(holding)})
        return Message(RecordDict({METRICS: metrics}), reply_to=message)

    @app.train(mods=[masked(lambda context: introduce(context).terms), *mods])
    def train(message: Message, context: Context) -> Message:
        """Train for one round."""
        one = introduce(context)
        one.refuse_late(message)
        config = message.content.config_records[CONFIG]
        received = from_record(message.content.array_records[ARRAYS])
        number = round_number(config)
        answer_once(number, one.plan, context)
        trained = one.train(one.plan, one.holding(config), one.member, number, received)
        return to_reply(trained, message)

    return app


def round_number(config: ConfigRecord) -> int:
    """The number of a round, counted from 0 over all runs."""
    first, here = config[FIRST], config[ROUND]
    if not isinstance(first, int) or not isinstance(here, int):
        raise SettingError(f"The server sent round {first!r} + {here!r}: use a Glasshouse server.")
    return first + here - 1


def answer_once(number: int, plan: Federation, context: Context) -> None:
    """Refuse a round beyond the plan's, or a second time: what a defense promises is about each of them once."""
    if not 0 <= number < plan.rounds:
        raise SettingError(f"The server asks for round {number + 1}: this client's plan has {plan.rounds}.")
    records = context.state.config_records
    before = records[ANSWERED][ROUND] if ANSWERED in records else []
    answered = [one for one in before if isinstance(one, int)] if isinstance(before, list) else []
    if number in answered:
        raise SettingError(
            f"The server asks for round {number + 1} again: this client answers each round of a run once."
        )
    records[ANSWERED] = ConfigRecord({ROUND: [*answered, number]})


def server_app(
    prepare: Callable[[Context], Host],
    stopping: threading.Event | None = None,
    late: Callable[[], None] = nothing_done,
) -> ServerApp:
    """A Flower app that carries out the rounds that are left of a federation.

    ``stopping`` ends it early, and is set when it is over; ``late`` is called when clients have not replied in time.
    """
    app = ServerApp()
    over = stopping or threading.Event()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        """Serve until the last round."""
        try:
            serve(prepare(context), WatchedGrid(grid, over, late), context)
        finally:
            over.set()

    return app


def serve(host: Host, watched: WatchedGrid, context: Context) -> None:
    """Call the roll, then carry out round after round."""
    if host.plan.secure_aggregation:
        SecureFedAvg(host, watched).run(context)
        return
    config = instructions(host.class_names, host.first_round())
    roll = call_roll(watched, host.plan.clients, config, timeout=host.plan.timeout)
    RecordedFedAvg(host, watched, roll).run()
