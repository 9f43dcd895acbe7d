"""Studies of federations: each is trained once, tested and asked in every way, and one that fails says why."""

from __future__ import annotations

import dataclasses
import json
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from tests.federated.local import federate

from glasshouse.errors import SettingError, StudyError
from glasshouse.federated.records import Ledger
from glasshouse.membership import queries
from glasshouse.store import DATABASE_FILE, Store
from glasshouse.studies.audit import Running
from glasshouse.studies.executors import Inline
from glasshouse.studies.federation import FederationAudit, audit_federation
from glasshouse.studies.federations import program
from glasshouse.studies.federations.comparison import compare
from glasshouse.studies.federations.plan import Federations
from glasshouse.studies.federations.results import FOLDER, RESULT_FILE, behind, lines
from glasshouse.studies.federations.status import status
from glasshouse.studies.federations.targets import targets_of
from glasshouse.studies.grid.plan import Grid, to_toml

pytest.importorskip("flwr", reason="needs glasshouse[federated]")

PLAN = Federations(defenses=("csvar",), rounds=2, clients=2, images=60, watched=(1,))


@pytest.fixture(scope="module", autouse=True)
def _without_processes():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(program, "federate", federate)
        yield


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    directory = tmp_path_factory.mktemp("study")
    return directory, program.carry_out(PLAN, directory, Running())[1]


def test_a_slice_ends_between_rounds(study, tmp_path, monkeypatch):
    """At least one round comes with every slice, so that the end is reached."""
    monkeypatch.setattr(program, "federate", lambda *given, **options: federate(*given, **options | {"deadline": 0}))
    found = []
    for rounds in (1, 2):
        _, summary = program.carry_out(PLAN, tmp_path, Running())
        (folder,) = (tmp_path / FOLDER).iterdir()
        assert len(Ledger(folder).finished()) == rounds
        found.append((summary.done, summary.failed, summary.left))
    assert found == [(0, 0, 1), (1, 0, 0)]
    ends = [Ledger(next((home / FOLDER).iterdir())).sent(2) for home in (tmp_path, study[0])]
    assert all(torch.equal(value, ends[1][name]) for name, value in ends[0].items())


def test_updates_of_the_last_round_are_kept_and_all_global_models(study):
    (folder,) = (study[0] / FOLDER).iterdir()
    assert [len(list((folder / "rounds" / number).glob("client_*"))) for number in ("000", "001")] == [0, 2]
    assert len(list((folder / "rounds").glob("*/global.safetensors"))) == 3
    ledger = Ledger(folder)
    assert len(ledger.finished()) == 2
    assert ledger.seen(1, 0)
    with pytest.raises(StudyError, match="keep clients' updates of the last round alone"):
        ledger.seen(0, 0)


def test_an_audit_attacks_the_first_round_that_is_kept(study, tmp_path):
    (folder,) = (study[0] / FOLDER).iterdir()
    settings = FederationAudit(attacks=("invgrad:steps=1",), metrics=("mse",), clients=1, images=1)
    assert audit_federation(folder, tmp_path, settings).to_json()["round"] == 2


def test_everything_is_measured_once(study):
    directory, summary = study
    assert (summary.done, summary.failed) == (1, 0)
    _, again = program.carry_out(PLAN, directory, Running())
    assert (again.found, again.done) == (1, 0)
    (row,) = json.loads((directory / RESULT_FILE).read_text())["rows"]
    assert set(row["accuracy"]) == {"clean", "protected"}
    assert set(row["membership"]) == {"1", "2"}
    assert set(row["membership"]["2"]) == {"loss, clean", "loss, protected"}
    assert 0 <= row["accuracy"]["clean"]["test"]["mean"] <= 1
    assert row["watched"]["2"] == row["accuracy"]  # few enough images to ask about all of them
    assert row["watched"]["1"]["clean"]["test"]["mean"] == pytest.approx(row["curve"][0], abs=0.01)


def test_each_federation_finds_the_cluster_connected(tmp_path, monkeypatch):
    """Flower ends the connection of the one before."""
    connected, found = [], []

    class Cluster(Inline):
        @contextmanager
        def connected(self):
            connected.append(True)
            yield
            connected.clear()

    def asked(*words, **settings):
        found.append(bool(connected))
        connected.clear()
        return federate(*words, **settings)

    monkeypatch.setattr(Running, "executor", lambda self: Cluster())
    monkeypatch.setattr(program, "federate", asked)
    program.carry_out(dataclasses.replace(PLAN, defenses=("none", "csvar")), tmp_path / "study", Running())
    assert found == [True, True]


def test_a_kept_curve_has_the_area_that_was_measured(study):
    (row,) = json.loads((study[0] / RESULT_FILE).read_text())["rows"]
    for asked in row["membership"].values():
        for one in asked.values():
            area = np.trapezoid(one["roc"]["tpr"], one["roc"]["fpr"])
            assert area == pytest.approx(one["auc"]["mean"], abs=0.02)  # the curve was thinned


def test_status_lines_and_comparison_come_from_the_study(study):
    directory, _ = study
    found = status(PLAN, directory)
    assert (found.targets.done, found.targets.left, found.unit) == (1, 0, "federations")
    table = lines(directory)
    assert {line.round for line in table if line.attack} == {1, 2}
    tested = [one for one in table if (one.measure, one.query) == ("accuracy on test images", "protected")]
    assert [one.round for one in tested] == [1, 2]
    right = tested[1]
    (row,) = json.loads((directory / RESULT_FILE).read_text())["rows"]
    assert right.mean == row["accuracy"]["protected"]["test"]["mean"]
    assert {one.difference.mean for one in compare(directory, directory)} == {0.0}


def test_an_attack_more_is_another_result_of_the_same_training():
    more = dataclasses.replace(PLAN, membership=("loss", "loss:signal=entropy"))
    (one,), (two,) = targets_of(PLAN, None), targets_of(more, None)
    assert one.key() != two.key()
    assert one.folder == two.folder


def test_what_earlier_versions_trained_is_found_again():
    (target,) = targets_of(dataclasses.replace(PLAN, defenses=("none",)), None)
    assert (target.key(), target.folder) == ("f7c68bfa14d803b21cace47cb8412da8", "0cd770f3199f520feadd0414")


@pytest.mark.parametrize(("defense", "changes"), [("csvar", False), ("csvar_exchange", True)])
def test_another_way_to_ask_needs_no_other_training(defense, changes, monkeypatch):
    (target,) = targets_of(dataclasses.replace(PLAN, defenses=(defense,)), None)
    before = target.key(), target.folder
    monkeypatch.setitem(queries.EDITIONS, 9, queries.EDITIONS[2])
    assert (target.key() != before[0], target.folder) == (changes, before[1])


def test_augmentation_is_another_federation():
    more = dataclasses.replace(PLAN, extra=("digits | mlp | csvar | augment", "digits | mlp | csvar"))
    one, two = targets_of(more, None)
    assert (one.key(), one.folder) == (targets_of(PLAN, None)[0].key(), targets_of(PLAN, None)[0].folder)
    assert {one.key(), one.folder}.isdisjoint((two.key(), two.folder))
    assert [target.federation.augment for target in (one, two)] == [False, True]
    assert behind(two.names()) == "csvar, augmented"


def test_of_an_earlier_version_only_what_it_did_not_ask_is_asked(tmp_path, monkeypatch):
    plan = dataclasses.replace(PLAN, defenses=("none",), rounds=1, watched=())
    before, _ = program.carry_out(plan, tmp_path, Running())
    store = Store(tmp_path / DATABASE_FILE)
    (record,) = store.targets()
    store.finish_target(record.key, {name: one for name, one in record.outcome.items() if name != "watched"})
    store.close()
    monkeypatch.delattr(program.Asked, "membership")
    after, summary = program.carry_out(plan, tmp_path, Running())
    assert (summary.found, summary.done, summary.failed) == (0, 1, 0)
    assert after["rows"] == before["rows"]


def changed(tmp_path, pixel: int):
    """The key of a federation on images of which one pixel has this value."""
    images = np.random.default_rng(0).integers(0, 256, (12, 8, 8), dtype=np.uint8)
    images[3, 4, 5] = pixel
    labels = np.arange(12) % 2
    np.savez(tmp_path / "own.npz", x_train=images, y_train=labels, x_test=images[:4], y_test=labels[:4])
    from glasshouse.federated.holdings import open_pool

    open_pool.cache_clear()  # as in another run
    (target,) = targets_of(dataclasses.replace(PLAN, datasets=(str(tmp_path / "own.npz"),), images=None), None)
    return target.key(), target.folder


def test_other_pixels_are_another_federation(tmp_path):
    first, again, other = changed(tmp_path, 1), changed(tmp_path, 1), changed(tmp_path, 2)
    assert first == again
    assert set(first).isdisjoint(other)


def test_another_version_of_a_defense_is_another_federation(monkeypatch):
    from glasshouse.defenses.csvar import CSVAR

    (target,) = targets_of(PLAN, None)
    before = target.key(), target.folder
    monkeypatch.setattr(CSVAR, "version", CSVAR.version + 1)
    assert {target.key(), target.folder}.isdisjoint(before)


def test_patience_and_spelling_change_no_key():
    (one,) = targets_of(PLAN, None)
    patient = dataclasses.replace(one, federation=dataclasses.replace(one.federation, timeout=7.0, split="iid"))
    assert patient.key() == one.key()


def test_a_federation_that_cannot_be_says_why_and_is_tried_again(tmp_path):
    plan = dataclasses.replace(PLAN, datasets=("nowhere.npz",))
    for _ in range(2):
        found, summary = program.carry_out(plan, tmp_path, Running())
        assert summary.failed == 1
        assert "nowhere.npz" in found["rows"][0]["failed"]
    assert [reason for _, reason in status(plan, tmp_path).failures] == [found["rows"][0]["failed"]]


def test_when_the_time_is_over_nothing_is_begun(tmp_path):
    found, summary = program.carry_out(PLAN, tmp_path, Running(minutes=0))
    assert summary.left == 1
    assert found["rows"][0]["pending"]
    assert not (tmp_path / FOLDER).exists()
    assert status(PLAN, tmp_path).targets.left == 1


def test_results_lie_where_the_run_is_told(tmp_path):
    store = f"sqlite:///{tmp_path}/other.db"
    program.carry_out(PLAN, tmp_path / "study", Running(minutes=0, store=store))
    assert not (tmp_path / "study" / DATABASE_FILE).exists()
    opened = Store(tmp_path / "other.db")
    assert [one.described["defense"] for one in opened.targets()] == ["csvar"]
    opened.close()


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        ({"extra": ("a | b",)}, "DATASET"),
        ({"extra": ("digits | mlp | none | mirrored",)}, "augment"),
        ({"extra": ("digits | mlp | none | shadows",)}, "go together"),
        ({"shadow_membership": ("lira:shadows=4",)}, "go together"),
        ({"membership": ("lira:shadows=4",)}, "shadow_membership"),
        ({"shadow_membership": ("loss",)}, "belong into membership"),
        ({"shadow_membership": ("lyra",)}, "shadow_membership has 'lyra': .* Did you mean 'lira'"),
        ({"watched": (3,)}, "watched"),
        ({"brief": ("moons",)}, "brief has 'moons'"),
        ({"defenses": ()}, "defenses"),
    ],
)
def test_wrong_plans_are_refused(wrong, word):
    with pytest.raises(SettingError, match=word):
        dataclasses.replace(PLAN, **wrong)


def test_single_models_have_one_seed():
    plan = Federations(models=("mlp", "lenet"), single=("lenet",), seeds=(0, 1), defenses=("none",))
    assert [(one.model, one.seed) for one in plan.federations()] == [("mlp", 0), ("mlp", 1), ("lenet", 0)]


def test_brief_data_sets_have_half_the_rounds_and_no_watched_ones_beyond():
    settings = {"datasets": ("digits", "digits:size=12"), "brief": ("digits:size=12",), "rounds": 4, "watched": (1, 3)}
    plan = Federations(**settings, defenses=("none",))
    assert [one.rounds for one in plan.federations()] == [4, 2]
    assert [one.rounds for one in targets_of(plan, None)] == [(1, 3, 4), (1, 2)]


def test_a_study_of_another_kind_is_left_alone(tmp_path):
    (tmp_path / "study.toml").write_text(to_toml(Grid()))
    with pytest.raises(StudyError, match="of another kind"):
        program.carry_out(PLAN, tmp_path, Running(minutes=0))
    assert (tmp_path / "study.toml").read_text() == to_toml(Grid())
