"""What the server makes sure of before it lets SecAgg+ add replies up, which believes every one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from flwr.app import Message
from flwr.common import bytes_to_ndarray
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS, Key, Stage
from flwr.compat.common import recorddict_compat

from glasshouse.errors import StudyError
from glasshouse.federated.masks import MODULUS
from glasshouse.federated.messages import BROKEN, Present


@dataclass(frozen=True, slots=True)
class Expected:
    """What fits: how many numbers each tensor has, and who is there, by node."""

    sizes: Sequence[int]
    present: Mapping[int, Present]


def problem(asked: Message, reply: Message, expected: Expected) -> str:
    """What is wrong with a reply to a question of SecAgg+, or nothing."""
    question = asked.content.config_records.get(RECORD_KEY_CONFIGS)
    if question is None or reply.has_error():
        return ""
    try:
        CHECKS[str(question[Key.STAGE])](question, reply, expected)
    except (*BROKEN, StudyError) as error:
        return f"sent what secure aggregation cannot use: {error}"
    return ""


Record = Mapping[str, object]


def _record(reply: Message) -> Record:
    return reply.content.config_records[RECORD_KEY_CONFIGS]


def _check_keys(question: Record, reply: Message, expected: Expected) -> None:
    if not all(isinstance(_record(reply).get(key), bytes) for key in (Key.PUBLIC_KEY_1, Key.PUBLIC_KEY_2)):
        raise StudyError("no public keys")


def _check_shares(question: Record, reply: Message, expected: Expected) -> None:
    _pairs(_record(reply), Key.DESTINATION_LIST, Key.CIPHERTEXT_LIST)


def _check_vectors(question: Record, reply: Message, expected: Expected) -> None:
    found = _record(reply)[Key.MASKED_PARAMETERS]
    parts = found if isinstance(found, list) else []
    arrays = [bytes_to_ndarray(part) for part in parts]
    shapes = [(1,), *((size,) for size in expected.sizes)]  # the first is the weight of the client
    if [array.shape for array in arrays] != shapes:
        raise StudyError("vectors that do not fit")
    for array in arrays:
        if not np.issubdtype(array.dtype, np.integer) or (array.size and not 0 <= array.min() <= array.max() < MODULUS):
            raise StudyError(f"numbers that are not whole and below {MODULUS}")
    present = expected.present[reply.metadata.src_node_id]
    examples = recorddict_compat.recorddict_to_fitres(reply.content, keep_input=True).num_examples
    if examples != present.examples:
        raise StudyError(f"trained on {examples} images, but has {present.examples}")


def _check_secrets(question: Record, reply: Message, expected: Expected) -> None:
    nodes = _pairs(_record(reply), Key.NODE_ID_LIST, Key.SHARE_LIST)
    lists = [question[key] for key in (Key.ACTIVE_NODE_ID_LIST, Key.DEAD_NODE_ID_LIST)]
    wanted = [node for part in lists if isinstance(part, list) for node in part]
    if sorted(nodes) != sorted(wanted):
        raise StudyError("shares of others than those asked for")


def _pairs(record: Record, nodes: str, values: str) -> list[int]:
    """The nodes of a list of nodes that stands beside a list of bytes."""
    first, second = record[nodes], record[values]
    if not isinstance(first, list) or not isinstance(second, list) or len(first) != len(second):
        raise StudyError("lists that do not fit together")
    if not all(isinstance(one, int) for one in first) or not all(isinstance(one, bytes) for one in second):
        raise StudyError("something else than nodes and bytes")
    return first


CHECKS = {
    Stage.SETUP: _check_keys,
    Stage.SHARE_KEYS: _check_shares,
    Stage.COLLECT_MASKED_VECTORS: _check_vectors,
    Stage.UNMASK: _check_secrets,
}
