"""A Flower grid that counts what travels, is asked often, and lets go when the run is interrupted."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable

from flwr.app import Error, Message, RecordDict
from flwr.common.constant import ErrorCode
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid
from flwr.supercore.run import Run

from glasshouse.errors import StudyError

ASK_EVERY = 0.1  # seconds; Flower's own grids wait up to three between questions


#: Says of a question and its reply what is wrong with the reply, or nothing.
Vet = Callable[[Message, Message], str]


def nothing_wrong(asked: Message, reply: Message) -> str:
    """Take every reply."""
    return ""


def nothing_done() -> None:
    """Let who is late be late."""


class WatchedGrid(Grid):
    """Passes everything on to another grid, but for replies that ``vet`` finds something wrong with.

    ``replies`` are those of the last question; ``bytes_sent`` and ``errors`` count from when they were forgotten.
    ``late`` is called when the time of a question is up and somebody has not replied.
    """

    def __init__(self, grid: Grid, stopping: threading.Event, late: Callable[[], None] = nothing_done) -> None:
        self.grid = grid
        self.stopping = stopping
        self.late = late
        self.replies: list[Message] = []
        self.vet: Vet = nothing_wrong
        self.forget()

    def forget(self) -> None:
        """Begin to count anew."""
        self.bytes_sent = 0
        self.errors: list[Message] = []

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
        given = list(messages)
        waiting = dict(zip(self.push_messages(given), given, strict=True))
        deadline = float("inf") if timeout is None else time.monotonic() + timeout
        self.replies = []
        while waiting and time.monotonic() < deadline:
            for reply in self.pull_messages(set(waiting)):
                asked = waiting.pop(reply.metadata.reply_to_message_id)
                self.replies.append(self._vetted(asked, reply))
            if waiting:
                self.pause()
        self.errors += [reply for reply in self.replies if reply.has_error()]
        if waiting:
            self.late()
        return self.replies

    def _vetted(self, asked: Message, reply: Message) -> Message:
        """A reply, or in its place an error that says what is wrong with it.

        For a node that has left Flower itself replies, under a name of its own.
        """
        if reply.has_error():
            return Message(reply.error, reply_to=asked)
        problem = self.vet(asked, reply)
        return Message(Error(ErrorCode.UNKNOWN, f"Message: {problem}"), reply_to=asked) if problem else reply

    def pause(self) -> None:
        """Wait a little; an interrupted run ends here."""
        if self.stopping.wait(ASK_EVERY):
            raise StudyError("The federation was interrupted: the same command goes on.")


def size(message: Message) -> int:
    """How many bytes the content of a message has; Flower's own count refuses the lists of secure aggregation."""
    if not message.has_content():
        return 0
    content = message.content
    values = [value for record in content.config_records.values() for value in record.values()]
    values += [value for record in content.metric_records.values() for value in record.values()]
    arrays = [array for record in content.array_records.values() for array in record.values()]
    return sum(len(array.data) for array in arrays) + sum(map(_size, values))


def _size(value: object) -> int:
    if isinstance(value, list):
        return sum(map(_size, value))
    return len(value) if isinstance(value, bytes | str) else 8
