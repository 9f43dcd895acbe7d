"""What clients say when they cannot reply is found again under what Ray and Flower wrap around it."""

from __future__ import annotations

import dataclasses
import traceback

import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'glasshouse[federated]'")
pytest.importorskip("ray", reason="Ray is not installed: pip install 'glasshouse[federated]'")

from flwr.app import ArrayRecord, ConfigRecord, Error, Message, MessageType, RecordDict
from flwr.clientapp.client_app import ClientAppException
from ray.exceptions import ActorDiedError, RayTaskError

from glasshouse.errors import StudyError
from glasshouse.federated.apps import client_app, simulated
from glasshouse.federated.messages import ARRAYS, CONFIG, reason


def lost(error: Exception) -> Message:
    """What Flower's engine makes of an error of a simulated client."""
    question = Message(RecordDict(), dst_node_id=1, message_type=MessageType.TRAIN)
    return Message(Error(code=0, reason=f"{type(error)}:<'{error}'>"), reply_to=question)


def test_what_a_client_raised_is_told_and_not_that_its_worker_died(local_grid):
    local_grid(None, 1)  # messages want a run
    raised = ClientAppException(str(StudyError("Some weight changed by more than secure aggregation carries")))
    wrapped = RayTaskError("run", "".join(traceback.format_exception(raised)), raised).as_instanceof_cause()
    assert "ray.exceptions" in str(type(wrapped))
    assert reason(lost(wrapped)) == "Some weight changed by more than secure aggregation carries"
    assert reason(lost(ActorDiedError())) == "its worker died twice in a row: too little memory?"


@pytest.mark.parametrize("kind", [MessageType.QUERY, MessageType.TRAIN])
def test_a_client_that_nobody_waits_for_leaves_its_worker_to_others(kind, small, local_grid, tmp_path):
    introduce = simulated(small, None, tmp_path)
    app = client_app(lambda context: dataclasses.replace(introduce(context), patience=-1))
    grid = local_grid(app, 1)
    content = RecordDict({CONFIG: ConfigRecord({}), ARRAYS: ArrayRecord([])})
    (number,) = grid.push_messages([Message(content, dst_node_id=1000, message_type=kind)])
    (reply,) = grid.pull_messages([number])
    assert reason(reply) == "Nobody waits for this answer any more."
