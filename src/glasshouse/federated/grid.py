"""A Flower grid that counts what travels, is asked often, and lets go when the run is interrupted."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable

from flwr.app import Message, RecordDict
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid
from flwr.supercore.run import Run

from glasshouse.errors import StudyError

ASK_EVERY = 0.1  # seconds; Flower's own grids wait up to three between questions


class WatchedGrid(Grid):
    """Passes everything on to another grid; ``replies`` are those of the last question, ``bytes_sent`` counts all."""

    def __init__(self, grid: Grid, stopping: threading.Event) -> None:
        self.grid = grid
        self.stopping = stopping
        self.bytes_sent = 0
        self.replies: list[Message] = []

    def set_run(self, run: Run) -> None:
        """Set the run."""
        self.grid.set_run(run)

    @property
    def run(self) -> Run:
        """The run."""
        return self.grid.run

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None
    ) -> Message:
        """Make a message."""
        return self.grid.create_message(content, message_type, dst_node_id, group_id, ttl)

    def get_node_ids(self) -> Iterable[int]:
        """The nodes that are connected."""
        return self.grid.get_node_ids()

    def get_nodes(self) -> Iterable[NodeInfo]:
        """What is known of the nodes that are connected."""
        return self.grid.get_nodes()

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Send messages."""
        given = list(messages)
        self.bytes_sent += sum(map(size, given))
        return self.grid.push_messages(given)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Receive what has come of some replies."""
        found = list(self.grid.pull_messages(message_ids))
        self.bytes_sent += sum(map(size, found))
        return found

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """Send messages and wait for their replies until all are there or the time is up."""
        open_ids = set(self.push_messages(messages))
        deadline = float("inf") if timeout is None else time.monotonic() + timeout
        self.replies = []
        while open_ids and time.monotonic() < deadline:
            for reply in self.pull_messages(open_ids):
                open_ids.discard(reply.metadata.reply_to_message_id)
                self.replies.append(reply)
            if open_ids:
                self.pause()
        return self.replies

    def pause(self) -> None:
        """Wait a little; an interrupted run ends here."""
        if self.stopping.wait(ASK_EVERY):
            raise StudyError("The federation was interrupted: the same command goes on.")


def size(message: Message) -> int:
    """How many bytes the content of a message has."""
    return sum(record.count_bytes() for record in message.content.values()) if message.has_content() else 0
