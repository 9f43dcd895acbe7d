"""Studies of federations: each is trained once, tested and asked in every way, and one that fails says why."""

from __future__ import annotations

import dataclasses
import json

import pytest

from glasshouse.errors import SettingError
from glasshouse.studies.federations import program
from glasshouse.studies.federations.plan import Federations

pytest.importorskip("flwr", reason="needs glasshouse[federated]")

PLAN = Federations(defenses=("csvar",), rounds=2, clients=2, images=60, watched=(1,))


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    directory = tmp_path_factory.mktemp("study")
    return directory, program.carry_out(PLAN, directory)


def test_everything_is_measured_once(study):
    directory, summary = study
    assert (summary.done, summary.failed) == (1, 0)
    again = program.carry_out(PLAN, directory)
    assert (again.found, again.done) == (1, 0)
    (row,) = json.loads((directory / program.RESULT_FILE).read_text())["rows"]
    assert set(row["accuracy"]) == {"clean", "protected"}
    assert set(row["membership"]) == {"1", "2"}
    assert set(row["membership"]["2"]) == {"loss, clean", "loss, protected"}
    assert 0 <= row["accuracy"]["clean"]["test"]["mean"] <= 1


def test_an_attack_more_is_asked_of_what_is_trained(study):
    directory, _ = study
    more = dataclasses.replace(PLAN, membership=("loss", "loss:signal=entropy"))
    assert program._read(directory / program.FOLDER / program.name_of(next(PLAN.federations())), PLAN) is not None
    assert program._read(directory / program.FOLDER / program.name_of(next(PLAN.federations())), more) is None


def test_a_federation_that_cannot_be_says_why_and_is_tried_again(tmp_path):
    plan = dataclasses.replace(PLAN, datasets=("nowhere.npz",))
    for _ in range(2):
        assert program.carry_out(plan, tmp_path).failed == 1
        (row,) = json.loads((tmp_path / program.RESULT_FILE).read_text())["rows"]
        assert "nowhere.npz" in row["failed"]


def test_damage_is_measured_again(tmp_path):
    folder = tmp_path / "one"
    folder.mkdir()
    (folder / program.MEASURED).write_text("{")
    assert program._read(folder, PLAN) is None


@pytest.mark.parametrize("wrong", [{"extra": ("a | b",)}, {"watched": (3,)}, {"defenses": ()}])
def test_wrong_plans_are_refused(wrong):
    with pytest.raises(SettingError):
        dataclasses.replace(PLAN, **wrong)


def test_single_models_have_one_seed():
    plan = Federations(models=("mlp", "lenet"), single=("lenet",), seeds=(0, 1), defenses=("none",))
    assert [(one.model, one.seed) for one in plan.federations()] == [("mlp", 0), ("mlp", 1), ("lenet", 0)]
