"""Votes in studies against metrics, the same as a table of them."""

from __future__ import annotations

import dataclasses
import shutil
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from tests.judged_study import make_study, vote

from glasshouse.errors import DataError, GlasshouseError, WeightsError
from glasshouse.functional.agreement import MISSING
from glasshouse.metrics import Metric, create, metrics
from glasshouse.metrics.features import FeatureMetric
from glasshouse.store import DATABASE_FILE, Location, Store, Vote, Votes
from glasshouse.studies import correlation, voted
from glasshouse.studies.judgements import read
from glasshouse.studies.voted import Sets, _part, by_testers, columns, correlate, judged_by, label, labels_of, tells
from glasshouse.votes.bundle import Voter, enrol
from glasshouse.votes.items import Questions, prepare


@pytest.fixture(scope="module")
def by_people(tmp_path_factory):
    """A study that three people judged, and a classifier that recognised nothing."""
    study = make_study(tmp_path_factory.mktemp("people") / "study")
    vote(study, ("one", "two", "three"), kind="human")
    vote(study, ("efficientnet_lite0 lineup 4",), always=False)
    return study


def test_a_study_says_what_a_table_of_its_votes_says(by_people, tmp_path):
    seen = read([by_people], "human")
    lines = ["config,image_index,gt_fine,annot1,annot2,annot3,psnr"]
    for guess in seen.guesses:
        votes = ",".join("1" if guess.hits[name] else "-1" for name in seen.voters)
        (psnr,) = create("psnr")(seen.originals[guess.owner].picture[None], guess.picture[None]).tolist()
        lines.append(f'"{guess.condition}",{guess.owner},1,{votes},{psnr!r}')
    path = tmp_path / "votes.csv"
    path.write_text("\n".join(lines))
    (ours,), (table,) = correlate([by_people], metrics=("psnr",)).found.metrics, correlation.correlate(path).metrics
    assert (ours.rho.mean, ours.tau.mean) == pytest.approx((table.rho.mean, table.tau.mean))
    assert ours.auc.mean == pytest.approx(table.auc.mean)
    assert ours.auc_within_original.mean == pytest.approx(table.auc_within_original.mean)
    assert ours.resolved == table.resolved


def test_people_are_asked_first_and_the_shipped_semsim_is_beside(by_people, monkeypatch):
    monkeypatch.setattr(voted, "METRICS", ("psnr",))
    found = correlate([by_people], judge="mean")
    assert found.kind == "human"
    psnr, semsim = found.found.metrics
    assert (psnr.name, semsim.name) == ("psnr", "semsim")
    assert psnr.tau.mean > 0.5
    assert semsim.tau.mean < -0.5
    with pytest.raises(DataError, match="recognised equally often"):
        correlate([by_people], judges="classifier")


def test_networks_behind_one_condition_are_models_of_their_own(by_people):
    """Audits of several weights, each a study, spell their conditions alike."""
    seen = read([by_people], "human")
    conditions = len(set(labels_of(seen)))
    guesses = [
        dataclasses.replace(guess, facts={**guess.facts, "weights": f"{guess.owner % 2}"}) for guess in seen.guesses
    ]
    found = labels_of(dataclasses.replace(seen, guesses=tuple(guesses)))
    assert len(set(found)) == 2 * conditions
    assert all(name.endswith(('/ weights "0"', '/ weights "1"')) for name in found)
    assert labels_of(seen) == [label(seen, guess) for guess in seen.guesses]


def test_a_perfect_reconstruction_is_the_reason_that_is_given(by_people):
    seen = read([by_people], "human")
    people, missing = judged_by(seen, "mean"), {}
    column = np.linspace(1, 2, len(seen.guesses))
    assert tells("psnr", column, people, missing)
    column[3] = np.inf
    assert not tells("psnr", column, people, missing)
    assert missing["psnr"] == "infinite, for a reconstruction equals its original"


def test_a_perfect_reconstruction_among_others_counts_as_the_best_of_them(by_people, monkeypatch):
    seen = read([by_people], "human")
    people, missing = judged_by(seen, "mean"), {}
    values = torch.linspace(10, 20, len(seen.guesses))
    values[3] = torch.inf
    monkeypatch.setattr(voted, "measured", lambda judgements, name: values)
    found = columns(seen, people, ["psnr"], missing)["psnr"]
    assert (found[3], found[4]) == (20, pytest.approx(float(values[4])))
    assert not missing
    values.fill_(torch.inf)
    assert columns(seen, people, ["psnr"], missing) == {}
    assert missing["psnr"].startswith("infinite")


def test_the_test_part_is_meant_where_no_part_is_named():
    assert _part("cifar100:size=32") == _part("cifar100:split=test") != _part("cifar100:split=train,size=32")


def test_classifiers_that_teach_test_nothing(studies):
    assert correlate(studies, metrics=("mse",)).kind == "classifier"
    assert by_testers(studies, "classifier").voters == ("efficientnet_lite0 lineup 4", "inception_v3 lineup 4")


def test_metrics_without_a_value_are_named_with_the_reason(by_people, monkeypatch):
    def no_weights(images):
        raise WeightsError("no weights here")

    monkeypatch.setattr(voted, "features", no_weights)
    found = correlate([by_people], metrics=("fid", "mse"))
    assert found.missing == {"fid": "no weights here"}
    assert [one.name for one in found.found.metrics] == ["mse"]
    with pytest.raises(DataError, match="No metric has a value: fid is no weights here"):
        correlate([by_people], metrics=("fid",))


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"metrics": ("nonsense",)}, "nonsense"),
        ({"judge": "nonsense"}, "majority"),
        ({"judges": "model"}, "no .* votes"),
    ],
)
def test_bad_input(by_people, asked, said):
    with pytest.raises(GlasshouseError, match=said):
        correlate([by_people], **asked)


def test_where_no_study_is_nothing_is_found(tmp_path):
    with pytest.raises(GlasshouseError, match="holds no study"):
        correlate([tmp_path])


def test_judgements_of_a_study_become_those_of_a_table(studies):
    testing = by_testers(studies, "classifier")
    people = judged_by(testing, "mean")
    assert people.hits.shape == (192, 2)
    assert not (people.hits == MISSING).any()
    assert people.chances.tolist() == pytest.approx([guess.share for guess in testing.guesses])
    place = 17
    guess = testing.guesses[place]
    assert people.models[people.model[place]] == f"{testing.dataset_of(guess)}: {guess.condition}"


class Size(FeatureMetric):
    """How many images there were; of truths that look like their guesses a hundred more."""

    fewest = 50

    def distance(self, truths, guesses):
        return float(len(truths) + 100 * torch.allclose(truths, guesses))


def test_a_metric_of_sets_has_one_value_for_each_model(studies, monkeypatch):
    looked_at = []

    def features(images):
        looked_at.append(len(images))
        return images.flatten(1).mean(1, keepdim=True)

    monkeypatch.setattr(voted, "features", features)
    testing = by_testers(studies, "classifier")
    sets = Sets(testing, judged_by(testing, "mean"))
    assert sets.values(Size()).tolist() == sets.values(Size()).tolist() == [12.0] * 192
    assert sum(looked_at) == 24 + 192  # each picture once
    fewer = testing.only(lambda guess: guess is not testing.guesses[0])
    assert np.isnan(Sets(fewer, judged_by(fewer, "mean")).values(Size())).all()


def test_originals_stand_beside_their_own_guesses(studies, monkeypatch):
    monkeypatch.setattr(voted, "features", lambda images: images.flatten(1).mean(1, keepdim=True))
    testing = by_testers(studies, "classifier")
    truths, _ = Sets(testing, judged_by(testing, "mean")).features
    expected = [testing.originals[guess.owner].picture.mean() for guess in testing.guesses]
    assert truths.flatten().tolist() == pytest.approx([float(one) for one in expected])


def test_checkpoints_of_one_training_are_drawn_together(studies):
    testing = by_testers(studies, "classifier")
    guesses = tuple(dataclasses.replace(one, training=one.facts["model"]) for one in testing.guesses)
    people = judged_by(dataclasses.replace(testing, guesses=guesses), "mean")
    assert len(people.models) == 16
    assert people.clusters.tolist() == [int("shut" in name) for name in people.models]
    assert judged_by(testing, "mean").clusters.tolist() == list(range(16))  # nothing known of a training


def test_networks_of_a_study_say_how_they_were_trained(study):
    """Both epochs of one target are one training; a network before it learned has none."""
    location = Location.of(study)
    store = Store(location.database)
    trained = {name: one.key for one in store.targets() for at, name in one.outcome["weights"].items() if at != "0"}
    store.close()
    votes = Votes(location.database)
    prepare(study, votes, Questions())
    (voter,) = enrol(votes, [Voter("one", "human")]).values()
    votes.record([Vote(item.id, voter, item.truth) for item in votes.items()])
    votes.close()
    found = read([study], "human")
    assert {guess.training for guess in found.guesses} == {None, *trained.values()}
    assert all(guess.training == trained.get(guess.facts["weights"]) for guess in found.guesses)
    assert all((guess.accuracy is None) == (guess.training is None) for guess in found.guesses)


def test_a_study_that_is_named_twice_or_copied_counts_once(by_people, tmp_path):
    copy = shutil.copytree(by_people, tmp_path / "copy")
    once, twice = read([by_people], "human"), read([by_people, copy], "human")
    assert len(once.guesses) == len(twice.guesses) == 96
    with pytest.raises(DataError, match=r"copy.* leave it out"):
        correlate([by_people, copy], metrics=("psnr",))
    vote(copy, ("four",), kind="human")
    assert all(len(guess.hits) == 4 for guess in read([by_people, copy], "human").guesses)


def test_what_people_would_have_chosen_stands_in_for_none_where_asked_for(tmp_path):
    """One who gives up soon sees as much as the others: the forced choices say so."""
    study = make_study(tmp_path / "study")
    votes = Votes(study / DATABASE_FILE)
    prepare(study, votes, Questions())
    (voter,) = enrol(votes, [Voter("cautious", "human")]).values()
    votes.record(
        Vote(item.id, voter, None, forced=item.truth) if item.place % 2 else Vote(item.id, voter, item.truth)
        for item in votes.items()
    )
    votes.close()
    assert {guess.share for guess in read([study], "human").guesses} == {0.0, 1.0}
    assert {guess.share for guess in read([study], "human", forced=True).guesses} == {1.0}


def test_a_data_set_is_familiar_at_any_size_and_another_part_of_it_is_not(by_people, monkeypatch):
    monkeypatch.setattr(voted, "notes", lambda file: {"datasets": "nowhere.npz:size=64, faces:split=train"})
    found = correlate([by_people], metrics=("semsim",))
    assert found.familiar == ("nowhere.npz",)
    assert any("SemSim learned from nowhere.npz" in line for line in found.remarks())
    monkeypatch.setattr(voted, "notes", lambda file: {"datasets": "nowhere.npz:split=train"})
    assert correlate([by_people], metrics=("semsim",)).familiar == ()


def test_a_study_without_votes_of_the_kind_is_named(by_people, studies):
    with pytest.raises(DataError, match=r"no human votes .*first.npz"):
        correlate([by_people, studies[0]], metrics=("psnr",))


def test_of_several_tasks_the_most_answered_counts(tmp_path):
    study = make_study(tmp_path / "study")
    vote(study, ("one", "two"), kind="human")
    votes = Votes(study / DATABASE_FILE)
    prepare(study, votes, Questions(task="pair"))
    voters = enrol(votes, [Voter("three", "human")])
    pairs = [item for item in votes.items() if item.task == "pair"]
    votes.record([Vote(item.id, voters[Voter("three", "human")], item.truth) for item in pairs])
    votes.close()
    assert pairs
    assert {tuple(guess.hits) for guess in read([study], "human").guesses} == {("one", "two")}


def test_originals_that_were_shuffled_are_no_attack(tmp_path):
    study = make_study(tmp_path / "study", size=32)
    votes = Votes(study / DATABASE_FILE)
    prepare(study, votes, Questions(shuffled=True))
    (voter,) = enrol(votes, [Voter("one", "human")]).values()
    votes.record([Vote(item.id, voter, item.truth) for item in votes.items()])
    votes.close()
    assert len(read([study], "human").guesses) == 12 + 96
    assert len(by_testers([study], "human").guesses) == 96


def test_voters_are_those_who_voted(studies):
    testing = by_testers(studies, "classifier")
    guesses = tuple(
        dataclasses.replace(one, hits={name: hit for name, hit in one.hits.items() if "inception" in name})
        for one in testing.guesses
    )
    assert dataclasses.replace(testing, guesses=guesses).only(lambda guess: True).voters == ("inception_v3 lineup 4",)


def test_what_semsim_learned_from_is_said(by_people, monkeypatch):
    monkeypatch.setattr(voted, "notes", lambda path: {"datasets": "digits, nowhere.npz"})
    found = correlate([by_people], metrics=("psnr", "semsim"))
    assert found.familiar == ("nowhere.npz",)
    assert "SemSim learned from nowhere.npz" in " ".join(found.remarks())
    assert found.to_json()["semsim_learned_from"] == ["nowhere.npz"]
    assert correlate([by_people], metrics=("psnr",)).familiar == ()


@pytest.mark.parametrize("leaks", ["high", "low"])
def test_a_metric_of_somebody_else_says_itself_which_way_it_leaks(by_people, leaks):
    name = f"of_a_plugin_{leaks}"

    @metrics.register(name)
    @dataclass(frozen=True, kw_only=True)
    class OfAPlugin(Metric):
        """Distance of pixels, or its negative."""

        leaks_when = leaks

        def per_image(self, truth, guess):
            distance = (truth - guess).square().flatten(1).mean(1)
            return distance if leaks == "low" else -distance

    try:
        theirs, mse = correlate([by_people], metrics=(name, "mse")).found.metrics
    finally:
        del metrics._classes[name]
    assert (theirs.leaks_when, theirs.known) == (leaks, True)
    assert theirs.auc_within_original.mean == pytest.approx(mse.auc_within_original.mean)


def test_votes_of_judges_that_were_changed_since_are_called_so(tmp_path):
    study = make_study(tmp_path / "old")
    vote(study, ("inception_v3 lineup 1",))
    with pytest.raises(DataError, match=r"older make \(inception_v3 lineup 1\): run 'glasshouse semsim judge'"):
        correlate([study], judges="classifier")
