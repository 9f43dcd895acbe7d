"""Federations without processes: a grid that calls the client app at once, as Flower's own grids do in the end."""

from __future__ import annotations

import copy
import os
import threading
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest

os.environ.update(FLWR_TELEMETRY_ENABLED="0", FLWR_DISABLE_UPDATE_CHECK="1", RAY_USAGE_STATS_ENABLED="0")
pytest.importorskip("flwr", reason="Flower is not installed: pip install 'glasshouse[federated]'")

from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

from glasshouse.federated import Federation, apps
from glasshouse.federated.grid import WatchedGrid
from glasshouse.federated.host import Host
from glasshouse.federated.records import Ledger

#: Changes a reply on its way, or makes it an error, or loses it.
Tamper = Callable[[int, Message, Message], Message | None]


class LocalGrid(Grid):
    """Calls the client app for each message; ``tamper(client, question, reply)`` stands for all that can go wrong."""

    def __init__(self, app: ClientApp, clients: int, *, order=None, tamper: Tamper = lambda client, asked, reply: reply):
        self.app, self.tamper = app, tamper
        TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 1, 1
        self.contexts = {
            1000 + number: Context(1, 1000 + number, {"partition-id": number}, RecordDict(), {})
            for number in (order or range(clients))
        }
        self.waiting: dict[str, Message] = {}
        self.seen: list[Message] = []

    def set_run(self, run): ...

    @property
    def run(self):
        return type("Run", (), {"run_id": 1})()

    def create_message(self, content, message_type, dst_node_id, group_id, ttl=None):
        raise NotImplementedError

    def get_node_ids(self):
        return list(self.contexts)

    def get_nodes(self):
        return []

    def push_messages(self, messages):
        found = []
        for message in messages:
            message.metadata.__dict__["_message_id"] = str(uuid4())
            found.append(message.metadata.message_id)
            self.answer(message)
        return found

    def answer(self, message: Message) -> None:
        context = self.contexts[message.metadata.dst_node_id]
        try:
            reply = self.app(copy.deepcopy(message), context)  # as over a wire
        except Exception as error:  # as Flower does
            reply = Message(Error(code=1, reason=f"{type(error)}:<'{error}'>"), reply_to=message)
        reply = self.tamper(context.node_config["partition-id"], message, reply)
        if reply is not None:
            self.seen.append(reply)
            self.waiting[message.metadata.message_id] = reply

    def pull_messages(self, message_ids):
        return [self.waiting.pop(one) for one in list(message_ids) if one in self.waiting]

    def send_and_receive(self, messages, *, timeout=None):
        return list(self.pull_messages(self.push_messages(messages)))


def carry_out(plan: Federation, out: Path, *, app: ClientApp | None = None, **options) -> Ledger:
    """Carry a federation out in this process; returns its rounds."""
    grid = LocalGrid(app or apps.client_app(apps.simulated(plan, None), mods=apps.mods(plan)), plan.clients, **options)
    server = apps.server_app(lambda context: Host.prepare(plan, out), threading.Event())
    server(grid, Context(1, 0, {}, RecordDict(), {}))
    return Ledger(out)


@pytest.fixture(scope="session")
def small() -> Federation:
    """Three clients with forty digits each, two rounds."""
    return Federation(images=120, clients=3, rounds=2, batch=20, model="mlp:width=16", timeout=5)


__all__ = ["LocalGrid", "WatchedGrid", "carry_out"]
