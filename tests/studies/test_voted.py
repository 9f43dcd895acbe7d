"""Votes in studies against metrics, the same as a table of them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from tests.judged_study import make_studies, make_study, vote

from glasshouse.errors import DataError, GlasshouseError, WeightsError
from glasshouse.functional.agreement import MISSING
from glasshouse.metrics import create
from glasshouse.metrics.features import FeatureMetric
from glasshouse.studies import correlation, voted
from glasshouse.studies.judgements import read
from glasshouse.studies.voted import Sets, by_testers, correlate, judged_by


@pytest.fixture(scope="module")
def studies(tmp_path_factory):
    return make_studies(tmp_path_factory.mktemp("judged"))


@pytest.fixture(scope="module")
def by_people(tmp_path_factory):
    """A study that three people judged, and a classifier that recognised nothing."""
    study = make_study(tmp_path_factory.mktemp("people") / "study")
    vote(study, ("one", "two", "three"), kind="human")
    vote(study, ("efficientnet_lite0 lineup 2",), always=False)
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


def test_classifiers_that_teach_test_nothing(studies):
    assert correlate(studies, metrics=("mse",)).kind == "classifier"
    assert by_testers(studies, "classifier").voters == ("efficientnet_lite0 lineup 2", "inception_v3 lineup 2")


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
    guesses = tuple(
        dataclasses.replace(one, condition=f"{one.facts['model']}, seed 0, epoch {number % 2}")
        for number, one in enumerate(testing.guesses)
    )
    people = judged_by(dataclasses.replace(testing, guesses=guesses), "mean")
    trainings = {name.partition(", epoch")[0] for name in people.models}
    assert len(set(people.clusters.tolist())) == len(trainings) < len(people.models)
