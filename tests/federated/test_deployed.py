"""What a deployed client and server read from Flower's configuration, and what they refuse."""

from __future__ import annotations

import dataclasses

import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'glasshouse[federated]'")

from flwr.app import Context, RecordDict

from glasshouse.collection import new_key
from glasshouse.errors import SettingError, StudyError, UnknownNameError
from glasshouse.federated import Federation, deployed
from glasshouse.federated.apps import answer_once
from glasshouse.federated.deployed import participant, plan_of
from glasshouse.federated.run import DATA_FILE

DIGITS = tuple(str(digit) for digit in range(10))
CONFIG = {"dataset": "digits", "clients": 2, "rounds": 2, "batch": 20, "model": "mlp:width=8", "lr": 0.1, "out": ""}


def test_plans_from_a_run_configuration():
    assert plan_of({"local-epochs": 3, "lr": 1, "test": "", "out": "/x"}) == Federation(local_epochs=3, lr=1.0)
    with pytest.raises(UnknownNameError, match="Did you mean 'rounds'"):
        plan_of({"round": 3})
    for config in ({"rounds": "3"}, {"lr": "fast"}, {"secure-aggregation": 1}):
        with pytest.raises(SettingError, match=f"{min(config)} = .* has the wrong type: write "):
            plan_of(config)


@pytest.mark.parametrize("setting", [{"images": 100}, {"split": "dirichlet:alpha=0.3"}])
def test_what_deals_out_images_is_refused(setting):
    with pytest.raises(SettingError, match="a node trains on all that its 'data' holds"):
        plan_of(setting)


def node(**config) -> Context:
    return Context(1, 1, {name.replace("_", "-"): value for name, value in config.items()}, RecordDict(), CONFIG)


@pytest.mark.parametrize(("run", "own"), [(False, True), (True, False), (True, True), (False, False)])
def test_a_client_can_ask_for_more_protection_and_not_for_less(run, own):
    run_config = {**CONFIG, "clients": 3, "secure-aggregation": run}
    config = {"partition-id": 0, "data": "digits", "secure-aggregation": own}
    asked = participant(Context(1, 1, config, RecordDict(), run_config))
    assert asked.plan.secure_aggregation is (run or own)


def test_a_round_is_answered_once_and_none_beyond_the_plan():
    context = node(partition_id=0, data="digits")
    plan = participant(context).plan
    for number in (0, 1):
        answer_once(number, plan, context)
    with pytest.raises(SettingError, match="round 1 again"):
        answer_once(0, plan, context)
    for number in (-1, 2):
        with pytest.raises(SettingError, match="plan has 2"):
            answer_once(number, plan, context)


def test_flowers_own_keys_pass():
    assert participant(node(partition_id=0, num_partitions=2, data="digits")).member.number == 0


def test_how_many_images_of_another_may_count_is_the_clients_own_word():
    assert participant(node(partition_id=0, data="digits", most_images=500)).terms.most_images == 500


def test_a_client_has_the_last_word(tmp_path):
    new_key(tmp_path / "key")
    own = participant(node(partition_id=1, data="digits", defense="csvar", key_file=str(tmp_path / "key")))
    assert own.plan == dataclasses.replace(plan_of(CONFIG), defense="csvar")
    assert own.member.number == 1
    assert len(own.open(list(DIGITS))) == 1500
    assert own.member.secret != participant(node(partition_id=1, data="digits")).member.secret


@pytest.mark.parametrize(
    ("config", "match"),
    [
        ({"partition_id": 0}, "has no data"),
        ({"data": "digits"}, "partition-id is None"),
        ({"partition_id": 0, "data": "digits", "defence": "csvar"}, "'defence'. Did you mean 'defense'"),
        ({"partition_id": 0, "data": "digits", "secure_aggregation": "true"}, "give true or false, without quotes"),
        ({"partition_id": 0, "data": "digits", "secure_aggregation": True}, "2 clients cannot aggregate securely"),
        ({"partition_id": 0, "data": "digits", "defense": "csvar"}, "needs a secret that the server does not know"),
        ({"partition_id": 0, "data": "digits", "most_images": True}, "most-images is True"),
    ],
)
def test_nodes_that_cannot_take_part(config, match):
    with pytest.raises(SettingError, match=match):
        participant(node(**config))


def test_a_deployment_does_not_go_on_where_a_simulation_stopped(carry_out, tmp_path):
    carry_out(dataclasses.replace(plan_of(CONFIG), images=60), tmp_path / "out")
    (tmp_path / "out" / DATA_FILE).write_text("what a simulation writes")
    with pytest.raises(StudyError, match="was begun by 'glasshouse federate'"):
        deployed.main(None, dataclasses.replace(node(), run_config={**CONFIG, "out": str(tmp_path / "out")}))
