"""The membership audit: how images are dealt, models trained once and kept, defenses asked in every way."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter

import numpy as np
import pytest
import torch

from glasshouse.errors import DataError, ModelError, SettingError, StudyError, UnknownNameError, WeightsError
from glasshouse.functional.roc import METRICS
from glasshouse.studies.candidates import deal
from glasshouse.studies.membership import MembershipAudit, audit_membership
from glasshouse.training import Samples

NET = """
from torch import nn

def make():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))

def narrow():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
"""
ALL = ("loss", "shokri:shadows=4", "lira:shadows=4", "rmia:shadows=4")


@pytest.fixture(scope="module")
def net(tmp_path_factory) -> str:
    file = tmp_path_factory.mktemp("net") / "net.py"
    file.write_text(NET)
    return f"{file}:make"


@pytest.fixture(scope="module")
def plan(net) -> MembershipAudit:
    return MembershipAudit(model=net, images=100, epochs=100, batch=32, augment=False, attacks=ALL)


@pytest.fixture(scope="module")
def done(plan, tmp_path_factory):
    """An audit that is finished, in its directory."""
    return audit_membership(plan, tmp_path_factory.mktemp("study") / "out")


def contents(samples: Samples) -> set[bytes]:
    return {image.numpy().tobytes() for image in samples.images}


def kept(directory) -> dict[str, int]:
    return {file.name: file.stat().st_mtime_ns for file in (directory / "models").iterdir()}


def test_members_and_others_come_in_pairs_of_a_class_and_the_rest_is_public():
    dealt = deal("digits", images=None, members=None, seed=0)
    assert len(dealt.members.images) == len(dealt.others.images) == dealt.trained == 747  # six classes are odd
    assert torch.equal(dealt.members.targets, dealt.others.targets)
    assert len(dealt.public.images) == 1797 - 2 * 747
    parts = [contents(part) for part in (dealt.members, dealt.others, dealt.public)]
    assert not parts[0] & parts[1]
    assert not (parts[0] | parts[1]) & parts[2]
    some = deal("digits", images=60, members=None, seed=0)
    assert len(some.candidates.images) == 60
    assert len(some.public.images) == 1797 - 60
    assert contents(deal("digits", images=60, members=None, seed=1).members) != contents(some.members)


def test_members_of_a_given_model_are_told_by_number_or_by_file(tmp_path):
    from glasshouse import data

    digits = data.load("digits", split="train")
    chosen = digits.spread(90, 3)
    by_number = deal("digits", images=None, members="90", seed=3)
    (tmp_path / "members.txt").write_text("\n".join([digits.ids[chosen[0]], "", *map(str, chosen)]))
    by_file = deal("digits", images=None, members=str(tmp_path / "members.txt"), seed=3)
    truth = contents(Samples(*digits.batch(chosen)))
    for dealt in (by_number, by_file):
        assert dealt.trained == 90
        assert contents(dealt.members) == truth
        assert not truth & (contents(dealt.others) | contents(dealt.public))
        assert Counter(dealt.members.targets.tolist()) == Counter(dealt.others.targets.tolist())


def test_a_model_trained_on_all_training_images_is_asked_about_test_images():
    dealt = deal("digits", images=None, members="1500", seed=0)
    assert dealt.trained == 1500
    assert len(dealt.others.images) <= 198  # two thirds of the 297 test images
    assert len(dealt.public.images) >= 99
    assert dealt.shadow_size == len(dealt.members.images) + len(dealt.public.images) // 2


def test_one_split_leaves_a_fifth_to_the_public_and_no_copies(tmp_path):
    random = np.random.default_rng(0)
    pixels = random.integers(0, 256, (100, 8, 8), dtype=np.uint8)
    pixels[90:] = pixels[:10]  # copies
    np.savez(tmp_path / "one.npz", images=pixels, labels=np.zeros(100, int))
    dealt = deal(str(tmp_path / "one.npz"), images=None, members=None, seed=0)
    assert len(dealt.members.images) == len(dealt.others.images) == 35  # of 90 that differ, with 20 left
    parts = [contents(part) for part in (dealt.members, dealt.others, dealt.public)]
    assert len(parts[0] | parts[1]) == 70
    assert not (parts[0] | parts[1]) & parts[2]
    with pytest.raises(DataError, match="leaves 0 public images"):
        deal(str(tmp_path / "one.npz"), images=90, members=None, seed=0)


def test_images_that_are_too_few_or_unknown_are_refused(tmp_path):
    with pytest.raises(DataError, match="too few for 20 candidates"):
        deal("photos", images=None, members=None, seed=0)
    with pytest.raises(DataError, match="too few for 5000 candidates"):
        deal("digits", images=5000, members=None, seed=0)
    with pytest.raises(SettingError, match="a text file with the name or number"):
        deal("digits", images=None, members=str(tmp_path / "none.txt"), seed=0)
    (tmp_path / "wrong.txt").write_text("0\nx_train/9999999\n")
    with pytest.raises(DataError, match="names 'x_train/9999999', which is no training image of digits"):
        deal("digits", images=None, members=str(tmp_path / "wrong.txt"), seed=0)


def test_an_overfitted_model_tells_its_members_to_every_attack(done):
    assert [row.attack for row in done.rows] == list(ALL)
    for row in done.rows:
        assert row.values["auc"].mean > 0.6, row.attack  # 0.72 to 0.83 here
        assert row.values["auc"].low > 0.5
        assert row.values["tpr_at_fpr_0.01"] is None
        assert row.values["balanced_accuracy"].mean > 0.55
    assert done.pending == 0
    (target,) = done.targets
    assert target.train_accuracy.mean == 1
    assert target.test_accuracy.mean < 0.95


def test_a_given_model_is_taken_to_be_trained_with_augmentation():
    assert not MembershipAudit().recipe.augment
    assert MembershipAudit(augment=True).recipe.augment
    assert MembershipAudit(weights="w", members="9").recipe.augment
    assert not MembershipAudit(weights="w", members="9", augment=False).recipe.augment


def test_the_json_is_complete(done):
    found = json.loads((done.directory / "membership.json").read_text(), parse_constant=pytest.fail)
    assert found == done.to_json()
    assert found["schema"] == 1
    assert (found["members"], found["others"], found["public"], found["shadows"]) == (50, 50, 1697, 4)
    assert found["training"] == {"epochs": 100, "lr": 0.1, "batch": 32, "augment": False}
    assert len(found["rows"]) == len(ALL) * len(METRICS)
    for row in found["rows"]:
        assert {"dataset", "model", "defense", "query", "attack", "attack_spec", "metric", "seed"} <= set(row)
        if row["metric"].startswith("tpr"):
            assert row["mean"] is None
            assert row["reason"].startswith("not estimable with 50 non-members")
        else:
            assert row["low"] <= row["mean"] <= row["high"]
            assert row["images"] == 100
    assert [curve["fpr"][-1] for curve in found["curves"]] == [1] * len(ALL)


def test_the_same_call_trains_nothing_and_finds_the_same(plan, done):
    before, steps = kept(done.directory), []
    assert len(before) == 5
    again = audit_membership(plan, done.directory, progress=lambda share, total: steps.append((share, total)))
    assert again.to_json() == done.to_json()
    assert kept(done.directory) == before
    assert steps == [(5, 5)]


def test_a_lost_shadow_is_trained_again_and_other_attacks_share_the_shadows(plan, done):
    before = kept(done.directory)
    lost = done.directory / "models" / max(name for name in before if name.startswith("shadow"))
    lost.unlink()
    again = audit_membership(plan, done.directory)
    assert again.to_json() == done.to_json()
    after = kept(done.directory)
    assert [name for name in after if after[name] != before[name]] == [lost.name]
    wider = dataclasses.replace(plan, attacks=("lira:shadows=6,mode=offline",))
    audit_membership(wider, done.directory)
    assert set(kept(done.directory)) - set(after) == {lost.name.replace("003", one) for one in ("004", "005")}
    audit_membership(plan, done.directory)


def test_the_same_seed_gives_the_same_elsewhere(plan, done, tmp_path):
    assert audit_membership(plan, tmp_path / "out").to_json() == done.to_json()


def test_time_that_is_over_leaves_what_is_finished(plan, tmp_path):
    none = audit_membership(plan, tmp_path / "out", minutes=0)
    assert (none.pending, none.rows, none.targets) == (5, (), ())
    assert json.loads((tmp_path / "out" / "membership.json").read_text())["pending"] == 5


def test_protected_queries_and_promises(plan, tmp_path):
    few = dataclasses.replace(
        plan, epochs=5, defenses=("csvar", "dp_sgd:epsilon=8"), attacks=("loss", "lira:shadows=4")
    )
    result = audit_membership(few, tmp_path / "out")
    assert [(row.defense, row.query) for row in result.rows[::2]] == [
        ("csvar", "clean"),
        ("csvar", "protected"),
        ("dp_sgd:epsilon=8", "clean"),
    ]
    first, second, third = result.targets
    assert first.train_accuracy != second.train_accuracy
    assert third.promise.startswith("(epsilon, delta) = (8, 1e-05) over 10 steps")
    assert "epsilon=8.0" in third.defense_spec
    assert len(kept(tmp_path / "out")) == 10


def test_a_given_model(plan, done, tmp_path):
    (weights,) = (done.directory / "models").glob("target-*")
    dealt = deal("digits", images=100, members=None, seed=0)
    from glasshouse import data

    digits = data.load("digits", split="train")
    known = contents(dealt.members)
    names = [digits.ids[place] for place in range(len(digits)) if contents(Samples(*digits.batch([place]))) <= known]
    (tmp_path / "members.txt").write_text("\n".join(names))
    given = dataclasses.replace(plan, weights=str(weights), members=str(tmp_path / "members.txt"))
    result = audit_membership(given, tmp_path / "out")
    assert result.facts["target"] == "given weights"
    assert result.facts["trained_on"] == 50
    assert all(row.values["auc"].mean > 0.6 for row in result.rows)
    assert not list((tmp_path / "out" / "models").glob("target-*"))
    with pytest.raises(WeightsError, match="does not fit the model"):
        audit_membership(dataclasses.replace(given, model="lenet"), tmp_path / "other")


def test_fewer_images_than_the_target_had_is_said(plan, done, tmp_path, caplog):
    (weights,) = (done.directory / "models").glob("target-*")
    given = dataclasses.replace(
        plan, images=None, weights=str(weights), members="1500", attacks=("rmia:shadows=4",), epochs=1
    )
    audit_membership(given, tmp_path / "out")
    assert "attacks are weaker for it" in caplog.text


@pytest.mark.parametrize(
    ("changed", "error", "match"),
    [
        ({"attacks": ("lirra",)}, UnknownNameError, "Did you mean 'lira'"),
        ({"attacks": ()}, SettingError, "There are no attacks"),
        ({"defenses": ("gaussian",)}, SettingError, "add at=training"),
        ({"defenses": ("csvra",)}, UnknownNameError, "Did you mean 'csvar'"),
        ({"images": 0}, SettingError, "images=0 is out of range"),
        ({"epochs": 0}, SettingError, "epochs=0 is out of range"),
        ({"weights": "w.safetensors"}, SettingError, "--weights and --members go together"),
        ({"members": "5"}, SettingError, "--weights and --members go together"),
        ({"weights": "w", "members": "5", "defenses": ("none", "csvar")}, SettingError, "trained in one way"),
        ({"dataset": "photos"}, DataError, "too few"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_written(plan, tmp_path, changed, error, match):
    with pytest.raises(error, match=match):
        audit_membership(dataclasses.replace(plan, **changed), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_model_without_the_classes_is_refused(plan, net, tmp_path):
    narrow = dataclasses.replace(plan, model=net.replace("make", "narrow"))
    with pytest.raises(ModelError, match="3 outputs, but the data has 10 classes"):
        audit_membership(narrow, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_directory_of_something_else_is_refused(plan, tmp_path):
    (tmp_path / "study.toml").write_text("")
    with pytest.raises(StudyError, match="holds no membership audit"):
        audit_membership(plan, tmp_path)
