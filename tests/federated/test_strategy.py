"""Rounds of federated averaging: the right mean, whatever the order, whoever fails, wherever it was killed."""

from __future__ import annotations

import dataclasses
import io
import math
import re
import threading
from contextlib import nullcontext

import numpy as np
import pytest
import torch

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'glasshouse[federated]'")

from flwr.app import Array, Context, Error, Message, MetricRecord, RecordDict
from flwr.common.constant import SUPERLINK_NODE_ID, ErrorCode

from glasshouse.errors import StudyError
from glasshouse.federated import apps
from glasshouse.federated.clients import Member, train_round
from glasshouse.federated.grid import WatchedGrid
from glasshouse.federated.holdings import dealt
from glasshouse.federated.host import Host
from glasshouse.federated.messages import call_roll, instructions
from glasshouse.federated.records import Round

DIGITS = tuple(str(digit) for digit in range(10))


@pytest.fixture(scope="module")
def finished(small, carry_out, tmp_path_factory):
    """A federation that nothing happened to."""
    return carry_out(small, tmp_path_factory.mktemp("plain"))


def same(one, two, rounds: int = 2) -> bool:
    return all(torch.equal(value, two.sent(rounds)[name]) for name, value in one.sent(rounds).items())


def test_the_mean_of_clients_weighted_by_their_images(small, carry_out, tmp_path):
    """The reference: every client trained by hand, and a weighted mean in double precision."""
    plan = dataclasses.replace(small, rounds=1, split="dirichlet:alpha=0.5")
    rounds = carry_out(plan, tmp_path)
    held = [dealt(plan, client, DIGITS, None) for client in range(3)]
    sizes = [len(one) for one in held]
    assert len(set(sizes)) > 1
    begun = rounds.sent(0)
    trained = [train_round(plan, one, Member.simulated(n, 0), 0, begun).weights for n, one in enumerate(held)]
    for name, value in rounds.sent(1).items():
        mean = sum(size * one[name].double() for size, one in zip(sizes, trained, strict=True)) / sum(sizes)
        assert torch.allclose(value.double(), mean, atol=1e-6), name
        assert all(torch.equal(rounds.seen(0, n)[name], one[name]) for n, one in enumerate(trained))


@pytest.mark.parametrize("secure", [False, True])
def test_a_block_that_the_server_prepared_is_sent_anew_and_the_rest_learns(small, carry_out, tmp_path, secure):
    plan = dataclasses.replace(small, model="imprinted:skip=true,bins=8", lr=0.01, secure_aggregation=secure)
    rounds = carry_out(plan, tmp_path)
    changed = {name for name, value in rounds.sent(0).items() if not torch.equal(value, rounds.sent(2)[name])}
    assert changed == {name for name in rounds.sent(0) if name.startswith("network.1.")}


def test_the_order_of_clients_changes_nothing(small, carry_out, finished, tmp_path):
    assert same(carry_out(small, tmp_path, order=[2, 0, 1]), finished)


def test_it_learns(small, carry_out, tmp_path):
    plan = dataclasses.replace(small, images=None, rounds=2, model="mlp")
    assert carry_out(plan, tmp_path).finished()[-1].accuracy > 0.8


def test_what_is_written_down(finished):
    first, second = finished.finished()
    assert [one.client for one in second.heard] == [0, 1, 2]
    assert [one.examples for one in second.heard] == [40, 40, 40]
    assert first.faults == ()
    assert finished.clients(1) == [0, 1, 2]
    shared = sum(value.numel() for value in finished.sent(0).values()) * 4
    assert 6 * shared < first.bytes_sent < 6 * shared + 20_000  # down and up to three clients, with heads
    assert Round.from_json(second.to_json()) == second


def test_a_killed_run_goes_on_with_the_same_numbers(small, carry_out, finished, tmp_path):
    class KilledError(Exception):
        pass

    def die(client, asked, reply):
        if asked.metadata.message_type == "train" and asked.content["config"]["server-round"] == 2 and client == 1:
            raise KilledError
        return reply

    with pytest.raises(KilledError):
        carry_out(small, tmp_path, tamper=die)
    (tmp_path / "rounds" / "001" / "client_7.safetensors").write_bytes(b"stale")
    rounds = carry_out(small, tmp_path)
    assert same(rounds, finished)
    assert rounds.clients(1) == [0, 1, 2]
    assert [one.accuracy for one in rounds.finished()] == [one.accuracy for one in finished.finished()]


def spoiled(change):
    """Change what client 1 replies when it trains."""

    def tamper(client, asked, reply):
        return change(asked, reply) if client == 1 and asked.metadata.message_type == "train" else reply

    return tamper


def with_array(name, value):
    def change(asked, reply):
        reply.content["arrays"][name] = Array(np.asarray(value, dtype=np.float32))
        return reply

    return spoiled(change)


def with_metrics(**metrics):
    def change(asked, reply):
        reply.content["metrics"] = MetricRecord(metrics)
        return reply

    return spoiled(change)


def damaged(asked, reply):
    reply.content["arrays"]["std"] = Array("float32", (), "numpy.ndarray", b"no array at all")
    return reply


def vast(asked, reply):
    """A head that promises more numbers than there is memory for."""
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "<f4", "fortran_order": False, "shape": (10**15,)})
    reply.content["arrays"]["std"] = Array("float32", (10**15,), "numpy.ndarray", head.getvalue())
    return reply


def as_flower(asked, reply):
    """What Flower's SuperLink replies for a node that has left in the middle of a round: it signs by its own number."""
    error = Message(Error(ErrorCode.NODE_UNAVAILABLE, "Error: Node unavailable."), reply_to=asked)
    error.metadata.__dict__["_src_node_id"] = SUPERLINK_NODE_ID
    return error


FAILING = {
    "left": (spoiled(as_flower), "Node unavailable"),
    "raised": (
        spoiled(lambda asked, reply: Message(Error(1, "X Message: out of memory'>"), reply_to=asked)),
        "out of m",
    ),
    "NaN": (with_array("network.3.bias", [float("nan")] * 10), "'network.3.bias' holds NaN"),
    "shape": (with_array("network.3.bias", [1.0]), r"shape \(1,\) instead of \(10,\)"),
    "extra": (with_array("more", [1.0]), "have the extra 'more'"),
    "damaged": (spoiled(damaged), "cannot be read"),
    "vast": (spoiled(vast), "cannot be read"),
    "weight": (with_metrics(**{"num-examples": 10**9, "loss": 0.0}), "trained on 1000000000 images, but has 40"),
    "told": (with_metrics(**{"num-examples": 40, "name": 1}), "told name, num-examples instead of loss"),
}


@pytest.mark.parametrize("kind", FAILING)
def test_a_round_goes_on_without_a_client_that_fails(small, carry_out, tmp_path, kind):
    tamper, match = FAILING[kind]
    plan = dataclasses.replace(small, rounds=1)
    rounds = carry_out(plan, tmp_path, tamper=tamper)
    (facts,) = rounds.finished()
    assert [one.client for one in facts.heard] == [0, 2]
    assert [fault.client for fault in facts.faults] == ["client 1"]
    assert re.search(match, facts.faults[0].reason)
    both = [rounds.seen(0, client) for client in (0, 2)]
    for name, value in rounds.sent(1).items():
        assert torch.allclose(value, (both[0][name] + both[1][name]) / 2, atol=1e-6)


def test_a_loss_that_is_no_number_spoils_nothing(small, carry_out, tmp_path):
    plan = dataclasses.replace(small, rounds=1)
    (facts,) = carry_out(plan, tmp_path, tamper=with_metrics(**{"num-examples": 40, "loss": [1.0, 2.0]})).finished()
    assert [math.isnan(one.loss) for one in facts.heard] == [False, True, False]


def test_a_client_that_starts_again_is_another_node_and_takes_part(small, local_grid, finished, tmp_path):
    def restart(client, asked, reply):
        if client == 1 and asked.metadata.message_type == "train" and 1001 in grid.contexts:
            grid.contexts[2001] = Context(1, 2001, {"partition-id": 1}, RecordDict(), {})
            del grid.contexts[1001]
        return reply

    grid = local_grid(apps.client_app(apps.simulated(small, None, tmp_path)), 3, tamper=restart)
    host = Host.prepare(small, tmp_path)
    apps.server_app(lambda context: host)(grid, None)
    assert same(host.ledger, finished)
    assert [facts.faults for facts in host.ledger.finished()] == [(), ()]


@pytest.mark.parametrize("gone", [(1001,), (1000, 1001, 1002)])
def test_who_has_left_is_named_and_rounds_without_clients_are_not_carried_out(gone, small, local_grid, tmp_path):
    trained = []

    def leave(client, asked, reply):
        trained.extend([client] if asked.metadata.message_type == "train" else [])
        if len(trained) == 3:
            for node in gone:
                grid.contexts.pop(node, None)
        return reply

    plan = dataclasses.replace(small, timeout=1)
    grid = local_grid(apps.client_app(apps.simulated(plan, None, tmp_path)), 3, tamper=leave)
    host = Host.prepare(plan, tmp_path)
    with pytest.raises(StudyError, match="No client is there") if len(gone) == 3 else nullcontext():
        apps.server_app(lambda context: host)(grid, None)
    first, *others = host.ledger.finished()
    assert first.faults == ()
    assert [[(one.client, one.reason) for one in facts.faults] for facts in others] == (
        [] if len(gone) == 3 else [[("client 1", "has left")]]
    )


def test_a_client_that_is_late_is_left_out(small, carry_out, tmp_path):
    plan = dataclasses.replace(small, rounds=1, timeout=1)
    rounds = carry_out(plan, tmp_path, tamper=spoiled(lambda asked, reply: None))
    (facts,) = rounds.finished()
    assert [(one.client, one.reason) for one in facts.faults] == [("client 1", "did not reply within 1 s, or has left")]


def test_when_all_fail_the_model_stays(small, carry_out, tmp_path):
    plan = dataclasses.replace(small, rounds=1)

    def fail(client, asked, reply):
        asking = asked.metadata.message_type == "query"
        return reply if asking else Message(Error(1, "no"), reply_to=asked)

    rounds = carry_out(plan, tmp_path, tamper=fail)
    assert all(torch.equal(value, rounds.sent(0)[name]) for name, value in rounds.sent(1).items())


def test_nobody_at_the_roll_call(small, local_grid, tmp_path):
    host = Host.prepare(small, tmp_path)
    host.class_names = host.class_names[:9]
    grid = local_grid(apps.client_app(apps.simulated(small, None, tmp_path)), 3)
    with pytest.raises(StudyError, match=r"No client is there\. node 100\d: Class '9' is not one of"):
        apps.server_app(lambda context: host)(grid, None)


def test_two_nodes_with_one_number(small, local_grid, tmp_path):
    plan = dataclasses.replace(small, rounds=1, timeout=1)
    grid = local_grid(apps.client_app(apps.simulated(plan, None, tmp_path)), 3)
    grid.contexts[1002].node_config["partition-id"] = 1
    apps.server_app(lambda context: Host.prepare(plan, tmp_path))(grid, None)
    (facts,) = Host.prepare(plan, tmp_path).ledger.finished()
    assert len(facts.heard) == 2
    assert "another node is client 1 already" in facts.faults[0].reason


def test_an_interrupted_server_lets_go(small, local_grid, tmp_path):
    stopping = threading.Event()
    stopping.set()
    lost = local_grid(
        apps.client_app(apps.simulated(small, None, tmp_path)), 3, tamper=lambda client, asked, reply: None
    )
    with pytest.raises(StudyError, match="was interrupted: the same command goes on"):
        call_roll(WatchedGrid(lost, stopping), 3, instructions(DIGITS, 0), timeout=600)
