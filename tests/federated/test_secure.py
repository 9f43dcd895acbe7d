"""Secure aggregation: the same model, nothing of a client but noise, no silent clipping, and room for who drops out."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'glasshouse[federated]'")

from flwr.app import Context, Error, Message, RecordDict
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS, Key, Stage

from glasshouse.errors import ModelError, SettingError
from glasshouse.federated import Federation, apps
from glasshouse.federated.records import Ledger
from glasshouse.federated.run import begun
from glasshouse.federated.secure import check_asked, check_range

MODULUS = 2**32
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
    ],
)
def test_a_client_refuses_a_server_that_would_unmask_it(changes, match):
    usual = {Key.STAGE: Stage.SETUP, Key.SAMPLE_NUMBER: 4, Key.SHARE_NUMBER: 4, Key.THRESHOLD: 3}
    check_asked(usual)
    with pytest.raises(SettingError, match=match):
        check_asked({**usual, **changes})


def test_a_client_takes_both_masks_off_nobody():
    asked = {Key.STAGE: Stage.UNMASK, Key.ACTIVE_NODE_ID_LIST: [1, 2], Key.DEAD_NODE_ID_LIST: [3]}
    check_asked(asked)
    with pytest.raises(SettingError, match="present and gone"):
        check_asked({**asked, Key.DEAD_NODE_ID_LIST: [1]})


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
