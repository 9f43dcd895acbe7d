"""A federation in one process: a grid that calls the client app at once, as Flower's own grids do in the end."""

from __future__ import annotations

import copy
import math
import os
import threading
from uuid import uuid4

from glasshouse.federated import Federation

os.environ.update(FLWR_TELEMETRY_ENABLED="0", FLWR_DISABLE_UPDATE_CHECK="1", RAY_USAGE_STATS_ENABLED="0")


class LocalGrid:
    """Calls the client app for each message; ``tamper(client, question, reply)`` stands for all that can go wrong."""

    def __init__(self, app, clients, *, order=None, tamper=lambda client, asked, reply: reply):
        from flwr.app import Context, RecordDict
        from flwr.supercore.task_identity import TaskIdentity

        TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 1, 1
        self.app, self.tamper = app, tamper
        self.contexts = {
            1000 + number: Context(1, 1000 + number, {"partition-id": number}, RecordDict(), {})
            for number in (order or range(clients))
        }
        self.waiting = {}
        self.run = type("Run", (), {"run_id": 1})()

    def get_node_ids(self):
        return list(self.contexts)

    def push_messages(self, messages):
        found = []
        for message in messages:
            message.metadata.__dict__["_message_id"] = str(uuid4())
            found.append(message.metadata.message_id)
            reply = self.answer(message, self.contexts[message.metadata.dst_node_id])
            if reply is not None:
                self.waiting[message.metadata.message_id] = reply
        return found

    def answer(self, message, context):
        from flwr.app import Error, Message

        try:
            reply = self.app(copy.deepcopy(message), context)  # as over a wire
        except Exception as error:  # noqa: BLE001 - as Flower does
            reply = Message(Error(code=1, reason=f"{type(error)}:<'Message: {error}'>"), reply_to=message)
        return self.tamper(context.node_config["partition-id"], message, reply)

    def pull_messages(self, message_ids):
        return [self.waiting.pop(one) for one in list(message_ids) if one in self.waiting]


def carry_out(plan: Federation, out, **options):
    """Carry a federation out in this process; returns its rounds."""
    from glasshouse.federated.digests import data_digest
    from glasshouse.federated.records import Ledger
    from glasshouse.federated.run import begun, keep_images

    with begun(plan, out) as host:
        keep_images(host, data_digest(plan, None))
        serve(host, **options)
    return Ledger(out)


def federate(plan: Federation, out, *, root=None, cores=None, tell=lambda facts: None, deadline=math.inf):
    """The same as ``glasshouse.federated.federate``, in this process."""
    from glasshouse.federated.digests import data_digest
    from glasshouse.federated.run import begun, keep_images, write_down

    with begun(plan, out, root=root, tell=tell) as host:
        keep_images(host, data_digest(plan, root))
        host.deadline = deadline
        if host.first_round() < plan.rounds:
            serve(host)
        return write_down(host)


def serve(host, **options):
    """All rounds that are left."""
    from flwr.app import Context, RecordDict

    from glasshouse.federated import apps

    app = apps.client_app(apps.simulated(host.plan, None, host.directory))
    server = apps.server_app(lambda context: host, threading.Event())
    server(LocalGrid(app, host.plan.clients, **options), Context(1, 0, {}, RecordDict(), {}))
