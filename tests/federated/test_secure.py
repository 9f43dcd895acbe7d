"""Secure aggregation: the same model, nothing of a client but noise, no silent clipping, and room for who drops out."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'glasshouse[federated]'")

from flwr.app import ConfigRecord, Context, Error, Message, RecordDict
from flwr.common import ndarray_to_bytes
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS, Key, Stage

from glasshouse.errors import ModelError, SettingError
from glasshouse.federated import Federation, apps
from glasshouse.federated import secure as secure_module
from glasshouse.federated.host import Host
from glasshouse.federated.masks import Asked, Terms, check_asked, check_range
from glasshouse.federated.records import Ledger
from glasshouse.federated.run import begun

MODULUS = 2**32
ME = Asked(node=1, terms=Terms(secure=True, limit=8.0, most_images=100))
STEP = 16 / 2**22  # a weight changes by multiples of this


@pytest.fixture(scope="module")
def secure(small) -> Federation:
    return dataclasses.replace(small, secure_aggregation=True)


@pytest.fixture(scope="module")
def both(small, secure, carry_out, tmp_path_factory):
    """The same federation in the open and behind masks."""
    return tuple(carry_out(plan, tmp_path_factory.mktemp("both")) for plan in (small, secure))


def test_the_same_model_as_in_the_open(both):
    plain, masked = both
    for name, value in plain.sent(2).items():
        assert torch.allclose(value, masked.sent(2)[name], atol=2 * 2 * STEP), name
    assert plain.finished()[0].heard == masked.finished()[0].heard


def test_what_the_server_keeps_of_a_client_is_noise(both):
    """Masked numbers are spread evenly and know nothing of the update; the sum of all of them does."""
    plain, masked = both
    name = "network.1.weight"
    update = (plain.seen(0, 1)[name] - plain.sent(0)[name]).flatten().double()
    seen = masked.seen(0, 1)[name].double()
    assert abs(float(torch.corrcoef(torch.stack([update, seen]))[0, 1])) < 4 / len(seen) ** 0.5
    counts = np.bincount((seen / MODULUS * 16).long().numpy(), minlength=16)
    expected = len(seen) / 16
    assert ((counts - expected) ** 2 / expected).sum() < 45  # chi-square of 15 degrees: one in ten thousand
    assert float(seen.max()) < MODULUS


def test_masks_are_drawn_anew(secure, carry_out, both, tmp_path):
    """The same update looks different to the server every time, and yet the sum is the same to the bit."""
    again = carry_out(secure, tmp_path)
    name = "network.1.weight"
    assert (again.seen(0, 1)[name] == both[1].seen(0, 1)[name]).float().mean() < 0.01
    assert all(torch.equal(value, again.sent(2)[key]) for key, value in both[1].sent(2).items())


def dropping(client: int, stage: str):
    def tamper(number, asked, reply):
        configs = asked.content.config_records.get(RECORD_KEY_CONFIGS, {})
        here = number == client and configs.get(Key.STAGE) == stage
        return Message(Error(1, "X Message: the power failed"), reply_to=asked) if here else reply

    return tamper


def test_a_client_that_drops_out_does_not_stop_the_round(small, secure, carry_out, tmp_path):
    one_round = {"rounds": 1}
    masked = carry_out(
        dataclasses.replace(secure, **one_round), tmp_path / "a", tamper=dropping(1, Stage.COLLECT_MASKED_VECTORS)
    )
    (facts,) = masked.finished()
    assert [one.client for one in facts.heard] == [0, 2]
    assert [(one.client, one.reason) for one in facts.faults] == [("client 1", "the power failed")]
    plain = carry_out(dataclasses.replace(small, **one_round), tmp_path / "b")
    for name, value in masked.sent(1).items():
        mean = (plain.seen(0, 0)[name] + plain.seen(0, 2)[name]) / 2
        assert torch.allclose(value, mean, atol=2 * STEP)


@pytest.mark.parametrize("stage", Stage.all())
def test_in_no_stage_does_one_client_stop_four(stage, small, secure, carry_out, tmp_path):
    four = {"rounds": 1, "clients": 4}
    masked = carry_out(dataclasses.replace(secure, **four), tmp_path / "a", tamper=dropping(1, stage))
    (facts,) = masked.finished()
    heard = [0, 1, 2, 3] if stage == Stage.UNMASK else [0, 2, 3]  # who leaves last has sent all it had
    assert [one.client for one in facts.heard] == heard
    plain = carry_out(dataclasses.replace(small, **four), tmp_path / "b")
    for name, value in masked.sent(1).items():
        mean = torch.stack([plain.seen(0, client)[name] for client in heard]).mean(0)
        assert torch.allclose(value, mean, atol=2 * STEP)


def test_who_has_left_is_waited_for_once(secure, local_grid, tmp_path):
    """A round without the client takes a moment, not the timeout."""
    trained = []

    def leave(client, asked, reply):
        configs = asked.content.config_records.get(RECORD_KEY_CONFIGS, {})
        trained.extend([client] if configs.get(Key.STAGE) == Stage.UNMASK else [])
        if len(trained) == 4:
            grid.contexts.pop(1001, None)
        return reply

    plan = dataclasses.replace(secure, clients=4, rounds=3, timeout=60)
    grid = local_grid(apps.client_app(apps.simulated(plan, None, tmp_path)), 4, tamper=leave)
    host = Host.prepare(plan, tmp_path)
    apps.server_app(lambda context: host)(grid, Context(1, 0, {}, RecordDict(), {}))
    first, *others = host.ledger.finished()
    assert len(first.heard) == 4
    for facts in others:
        assert [one.client for one in facts.heard] == [0, 2, 3]
        assert [(one.client, one.reason) for one in facts.faults] == [("client 1", "has left")]
        assert facts.seconds < 0.5 * plan.timeout


def broken(stage: str, **values):
    """Client 1 replies something else in one stage."""

    def tamper(number, asked, reply):
        configs = asked.content.config_records.get(RECORD_KEY_CONFIGS, {})
        if number == 1 and configs.get(Key.STAGE) == stage:
            reply.content.config_records[RECORD_KEY_CONFIGS] = ConfigRecord(values)
        return reply

    return tamper


@pytest.mark.parametrize(
    ("stage", "values"),
    [
        (Stage.SETUP, {Key.PUBLIC_KEY_1: b""}),
        (Stage.SHARE_KEYS, {Key.DESTINATION_LIST: [1], Key.CIPHERTEXT_LIST: [b"", b""]}),
        (Stage.SHARE_KEYS, {}),
        (Stage.COLLECT_MASKED_VECTORS, {Key.MASKED_PARAMETERS: [b"no array"]}),
        (Stage.COLLECT_MASKED_VECTORS, {Key.MASKED_PARAMETERS: [ndarray_to_bytes(np.zeros(1))]}),
        (Stage.UNMASK, {Key.NODE_ID_LIST: [77], Key.SHARE_LIST: [b"share"]}),
    ],
)
def test_replies_that_make_no_sense_cost_the_sender_alone(stage, values, secure, carry_out, tmp_path):
    plan = dataclasses.replace(secure, rounds=1, clients=4)
    (facts,) = carry_out(plan, tmp_path, tamper=broken(stage, **values)).finished()
    assert {0, 2, 3} <= {one.client for one in facts.heard}
    if stage != Stage.UNMASK:
        (fault,) = facts.faults
        assert fault.client == "client 1"
        assert "sent what secure aggregation cannot use" in fault.reason


def test_shares_that_lie_void_the_round_and_not_the_federation(secure, carry_out, tmp_path):
    def lie(number, asked, reply):
        configs = asked.content.config_records.get(RECORD_KEY_CONFIGS, {})
        if number == 1 and configs.get(Key.STAGE) == Stage.UNMASK:
            told = reply.content.config_records[RECORD_KEY_CONFIGS]
            told[Key.SHARE_LIST] = [b"lie" for _ in told[Key.SHARE_LIST]]
        return reply

    (facts,) = carry_out(dataclasses.replace(secure, rounds=1), tmp_path, tamper=lie).finished()
    assert facts.heard == ()
    assert all("could not be unmasked" in one.reason for one in facts.faults)


def test_too_few_left_and_the_model_stays(secure, carry_out, tmp_path):
    def fail(number, asked, reply):
        for client in (0, 1):
            reply = dropping(client, Stage.COLLECT_MASKED_VECTORS)(number, asked, reply)
        return reply

    rounds = carry_out(dataclasses.replace(secure, rounds=1), tmp_path, tamper=fail)
    (facts,) = rounds.finished()
    assert facts.heard == ()
    assert {one.client for one in facts.faults} == {"client 0", "client 1", "client 2"}
    assert all(torch.equal(value, rounds.sent(0)[name]) for name, value in rounds.sent(1).items())


def test_nothing_is_clipped_in_silence(secure, carry_out, tmp_path):
    rounds = carry_out(dataclasses.replace(secure, rounds=1, secure_range=1e-3), tmp_path)
    (facts,) = rounds.finished()
    assert facts.heard == ()
    assert all("more than secure aggregation carries (0.001) without clipping" in one.reason for one in facts.faults)


def test_ranges():
    check_range({"w": torch.tensor([8.0, -8.0]), "empty": torch.zeros(0)}, 8.0)
    with pytest.raises(ModelError, match=r"Some weight changed by more than secure aggregation carries \(8\)"):
        check_range({"w": torch.tensor([0.0, -8.01])}, 8.0)
    with pytest.raises(ModelError, match="would spoil the sum"):
        check_range({"w": torch.tensor([float("inf")])}, 8.0)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({Key.SAMPLE_NUMBER: 2}, "would add up 2 clients"),
        ({Key.THRESHOLD: 2, Key.SHARE_NUMBER: 4}, "would unmask with 2 of 4 shares"),
        ({Key.MOD_RANGE: 2}, "mod_range 2, .* hide nothing"),  # masks of zeros
        ({Key.TARGET_RANGE: 1}, "target_range 1, "),
        ({Key.CLIPPING_RANGE: 1e-9}, "clipping_range 1e-09, "),
        ({Key.SHARE_NUMBER: 3, Key.THRESHOLD: 2}, "among 3"),
        ({Key.MAX_WEIGHT: 101.0}, "up to 101.0 images of a client, this client at most 100"),
        ({Key.MAX_WEIGHT: None}, "up to None images"),
    ],
)
def test_a_client_refuses_a_server_that_would_unmask_it(changes, match):
    usual = {
        Key.STAGE: Stage.SETUP,
        Key.SAMPLE_NUMBER: 4,
        Key.SHARE_NUMBER: 4,
        Key.THRESHOLD: 3,
        Key.MOD_RANGE: MODULUS,
        Key.TARGET_RANGE: 2**22,
        Key.CLIPPING_RANGE: 8.0,
        Key.MAX_WEIGHT: 100.0,
    }
    check_asked(usual, ME)
    with pytest.raises(SettingError, match=match):
        check_asked({**usual, **changes}, ME)


def test_a_client_counts_the_masks_itself():
    """Were one sender named twice, its mask alone would be on what this client lets out."""
    shares = {Key.STAGE: Stage.COLLECT_MASKED_VECTORS, Key.CIPHERTEXT_LIST: [b"", b""], Key.SOURCE_LIST: [2, 3]}
    check_asked(shares, ME)
    for sources, match in (([2, 2], "one client twice"), ([1, 2], "one client twice"), ([2], "add up 2 clients")):
        with pytest.raises(SettingError, match=match):
            check_asked({**shares, Key.SOURCE_LIST: sources}, ME)
    with pytest.raises(SettingError, match="add up 3 clients: too few"):
        check_asked(shares, dataclasses.replace(ME, threshold=4))


def test_a_server_that_has_others_count_for_nothing_gets_nothing(secure, carry_out, tmp_path, monkeypatch):
    """By what it says of the largest client it could make the sum that of one."""
    monkeypatch.setattr(secure_module.RecordedSecAgg, "__init__", _counting(10**12))
    (facts,) = carry_out(dataclasses.replace(secure, rounds=1), tmp_path).finished()
    assert facts.heard == ()
    assert all("would be next to nothing" in one.reason for one in facts.faults)


def _counting(most):
    usual = secure_module.RecordedSecAgg.__init__
    return lambda self, strategy, most_examples: usual(self, strategy, most)


def test_a_client_takes_both_masks_off_nobody():
    asked = {Key.STAGE: Stage.UNMASK, Key.ACTIVE_NODE_ID_LIST: [1, 2], Key.DEAD_NODE_ID_LIST: [3]}
    check_asked(asked, ME)
    with pytest.raises(SettingError, match="present and gone"):
        check_asked({**asked, Key.DEAD_NODE_ID_LIST: [1]}, ME)
    with pytest.raises(SettingError, match="calls this client gone"):
        check_asked({**asked, Key.ACTIVE_NODE_ID_LIST: [2, 4]}, ME)


def test_a_client_counts_the_keys_itself():
    keys = {str(node): [b"", b""] for node in range(3)}
    check_asked({Key.STAGE: Stage.SHARE_KEYS, **keys}, ME)
    with pytest.raises(SettingError, match="has keys of 2 clients"):
        check_asked({Key.STAGE: Stage.SHARE_KEYS, **{node: keys[node] for node in ("0", "1")}}, ME)


def test_no_other_type_of_message_goes_round_the_masks(secure, tmp_path):
    """Flower hands 'train.default' to the same function, and its SecAgg+ takes it for no message of its own."""
    app = apps.client_app(apps.simulated(secure, None, tmp_path))
    content = RecordDict({RECORD_KEY_CONFIGS: ConfigRecord({Key.STAGE: Stage.SETUP})})
    message = Message(content, dst_node_id=1000, message_type="train.default")
    with pytest.raises(SettingError, match="asks for weights in the open"):
        app(message, Context(1, 1000, {"partition-id": 0}, RecordDict(), {}))


def test_a_client_whose_plan_is_secure_sends_nothing_in_the_open(small, secure, local_grid, tmp_path):
    """The server asks for weights; the clients know better."""
    app = apps.client_app(apps.simulated(secure, None, tmp_path))
    with begun(dataclasses.replace(small, rounds=1), tmp_path) as host:
        apps.server_app(lambda context: host)(local_grid(app, 3), Context(1, 0, {}, RecordDict(), {}))
    (facts,) = Ledger(tmp_path).finished()
    assert len(facts.faults) == 3
    assert all("asks for weights in the open" in one.reason for one in facts.faults)
    assert Ledger(tmp_path).clients(0) == []


def test_two_clients_cannot_hide():
    with pytest.raises(SettingError, match="2 clients cannot aggregate securely"):
        Federation(clients=2, secure_aggregation=True)
