"""SemSim is tested on what it never saw, by judges who taught it nothing."""

from __future__ import annotations

import dataclasses
import json
import warnings
from dataclasses import dataclass

import numpy as np
import pytest
from tests.judged_study import make_study, vote

from glasshouse.errors import DataError, WeightsError
from glasshouse.metrics import Metric
from glasshouse.metrics import metrics as registered
from glasshouse.semsim import Recipe
from glasshouse.studies import evaluation, ordering, voted
from glasshouse.studies.evaluation import evaluate, panels
from glasshouse.studies.judgements import read
from glasshouse.studies.ordering import contradictions, orderings, turned
from glasshouse.studies.semsim import Lesson

QUICK = Lesson(backbone="lenet", recipe=Recipe(epochs=1, batch=8))
pytestmark = pytest.mark.usefixtures("cheap_lpips")


def no_weights(images):
    raise WeightsError("no weights here")


def test_every_data_set_attack_and_model_is_left_out_once(studies, monkeypatch):
    monkeypatch.setattr(voted, "features", no_weights)
    found = evaluate(studies, QUICK, metrics=("mse", "psnr", "fid"))
    assert (found.teachers, found.testers) == (
        "classifier: alexnet lineup 4",
        "classifier: efficientnet_lite0 lineup 4, inception_v3 lineup 4",
    )
    assert [(one.axis, one.left_out) for one in found.tests] == [
        ("data set", "first.npz"),
        ("data set", "second.npz"),
        ("attack", "idlg"),
        ("attack", "invgrad"),
        ("model", "open"),
        ("model", "shut"),
    ]
    first = found.tests[0]
    assert (first.originals, first.guesses, first.failed) == (12, 96, None)
    assert first.missing == {"fid": "no weights here"}
    assert {one.name for one in first.found.metrics} == {"mse", "psnr", "semsim", "classifier"}
    assert len(first.found.recognition.models) == 8
    psnr = next(one for one in first.found.metrics if one.name == "psnr")
    assert psnr.tau.mean > 0.7
    assert len(first.orderings) == 2
    written = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert written["tests"][0]["correlation"]["metrics"]["semsim"]["tau"] == pytest.approx(
        next(one for one in first.found.metrics if one.name == "semsim").tau.mean
    )


def test_what_is_left_out_never_teaches(studies, monkeypatch):
    taught = []
    learn = Lesson.learn
    monkeypatch.setattr(Lesson, "learn", lambda self, some: taught.append(some) or learn(self, some))
    evaluate(studies, QUICK, axes=("data set", "attack"), metrics=())
    assert [some.datasets for some in taught[:2]] == [("second.npz",), ("first.npz",)]
    assert {guess.facts["attack"] for guess in taught[2].guesses} == {"invgrad"}
    assert all(some.voters == ("alexnet lineup 4",) for some in taught)


def test_pictures_that_are_tested_teach_under_no_other_name(studies, tmp_path, monkeypatch):
    taught = []
    learn = Lesson.learn
    monkeypatch.setattr(Lesson, "learn", lambda self, some: taught.append(some) or learn(self, some))
    renamed = make_study(tmp_path / "renamed", dataset="renamed.npz")  # the pictures of the first
    vote(renamed, ("one", "two", "three"), kind="human")
    evaluate([renamed], QUICK, lessons=studies, axes=("data set",), metrics=())
    assert [some.datasets for some in taught] == [("second.npz",)]


def test_degraded_copies_are_of_no_attack(tmp_path, monkeypatch):
    own = make_study(tmp_path / "own")
    everything = panels
    monkeypatch.setattr(evaluation, "panels", lambda *given: tuple(map(invgrad_and_copies, everything(*given))))
    vote(own, ("alexnet lineup 4",))
    vote(own, ("inception_v3 lineup 4",))
    with pytest.raises(DataError, match="nothing can be left out"):
        evaluate([own], QUICK, axes=("attack",))


def invgrad_and_copies(judgements):
    """One attack, and what another made as copies that none did."""
    changed = (
        one if one.facts["attack"].startswith("invgrad") else dataclasses.replace(one, facts={}, attacked=False)
        for one in judgements.guesses
    )
    return dataclasses.replace(judgements, guesses=tuple(changed))


def test_a_teacher_who_says_what_testers_say_is_left_out_alone(studies, monkeypatch):
    monkeypatch.setattr(evaluation, "_shares", lambda teaching, left: np.array([guess.share for guess in left.guesses]))
    (first, _) = evaluate(studies, QUICK, axes=("data set",), metrics=("mse",)).tests
    assert first.missing == {"classifier": "what those who test said themselves"}
    assert {one.name for one in first.found.metrics} == {"mse", "semsim"}


def test_lessons_teach_and_test_nobody(studies, monkeypatch):
    taught = []
    monkeypatch.setattr(evaluation, "without", lambda teaching, testing, *rest: taught.append((teaching, testing)))
    evaluate(studies[:1], QUICK, lessons=studies[1:], axes=("data set",), metrics=())
    ((teaching, testing),) = taught
    assert set(teaching.datasets) == {"first.npz", "second.npz"}
    assert testing.datasets == ("first.npz",)
    with pytest.raises(DataError, match="nothing can be left out"):
        evaluate(studies[:1], QUICK, axes=("data set",))


def test_networks_that_have_not_learned_are_nobodys_targets(studies):
    _, testing = panels(studies)
    assert evaluation._least_accuracy("digits") == 0.5
    with pytest.raises(DataError, match=r"learned 'first\.npz' is told by its number of classes"):
        evaluation._least_accuracy("first.npz")  # which is not here
    digits = tuple(dataclasses.replace(one, dataset="digits") for one in testing.originals)
    right = {"open": 0.49, "shut": 0.51}
    known = dataclasses.replace(
        testing,
        originals=digits,
        guesses=tuple(dataclasses.replace(one, accuracy=right[one.facts["model"]]) for one in testing.guesses),
    )
    assert {guess.facts["model"] for guess in evaluation.learned(known).guesses} == {"shut"}
    assert len(evaluation.learned(testing).guesses) == len(testing.guesses)  # of which nobody knows


def test_where_no_network_has_learned_nothing_is_trained(studies, monkeypatch):
    teaching, testing = panels(studies)
    monkeypatch.setattr(Lesson, "learn", lambda *given: pytest.fail("it was trained"))
    monkeypatch.setattr(evaluation, "learned", lambda judgements: judgements.only(lambda guess: False))
    test = evaluation.without(teaching, testing, "data set", "first.npz", Lesson())
    assert (test.found, test.failed) == (None, "No network here has learned enough to be anybody's target.")


def test_people_may_test_what_classifiers_taught(studies, tmp_path):
    own = make_study(tmp_path / "own", dataset="third.npz", first=80)
    vote(own, ("one", "two", "three"), kind="human")
    found = evaluate([own], QUICK, lessons=studies, axes=("data set",), metrics=("mse",))
    assert found.teachers.startswith("classifier")
    assert found.testers.startswith("human")
    with pytest.raises(DataError, match=r"no .* votes"):
        evaluate([own], QUICK, lessons=studies, axes=("data set",), metrics=("mse",), judges="classifier")


def test_orders_that_differ_are_shown(studies):
    some = read(studies[:1], "classifier", ["inception_v3 lineup 4"])
    psnr = np.array([-float(guess.case_key.split()[1]) for guess in some.guesses])
    semsim = -psnr
    semsim[some.owners.numpy() == 3] *= -1
    first, _ = orderings(some, psnr, semsim)
    assert first.original is some.originals[3].picture
    assert first.recognised.any()
    assert not first.recognised.all()
    assert len(first.guesses) == 8


def test_orders_show_both_kinds(studies, monkeypatch):
    monkeypatch.setattr(ordering, "MOST", 2)  # the best and the worst by PSNR
    some = read(studies[:1], "classifier", ["inception_v3 lineup 4"])
    psnr = np.array([float(guess.hits["inception_v3 lineup 4"]) for guess in some.guesses])
    assert all(one.recognised.tolist() == [False, True] for one in orderings(some, psnr, -psnr))
    middle = np.where(psnr == 1, 0.5, np.arange(len(psnr)) % 2)  # those recognised are neither
    assert orderings(some, middle, -middle) == ()


def test_metrics_that_contradict_judges_are_shown(studies):
    some = read(studies[:1], "classifier", ["inception_v3 lineup 4", "efficientnet_lite0 lineup 4"])
    shares = np.array([guess.share for guess in some.guesses])
    fooled = np.where(some.owners.numpy() == 3, -shares, shares)
    assert contradictions(some, {"right": shares}) == ()
    (found,) = contradictions(some, {"right": shares, "fooled": fooled})
    assert found.original is some.originals[3].picture
    assert found.fooled == ("fooled",)
    assert found.shares[0] < 0.5 < found.shares[1]


def test_of_one_study_alone_only_attacks_and_models_can_be_left_out(studies):
    found = evaluate(studies[:1], QUICK, metrics=("psnr",))
    assert {one.axis for one in found.tests} == {"attack", "model"}
    with pytest.raises(DataError, match="nothing can be left out"):
        evaluate(studies[:1], QUICK, axes=("data set",))


def test_without_votes_for_the_test_nothing_is_tested(tmp_path):
    study = make_study(tmp_path / "study")
    vote(study, ("alexnet lineup 4",))
    with pytest.raises(DataError, match="no efficientnet_lite0 or inception_v3 votes"):
        evaluate([study], QUICK)


def test_metrics_of_others_say_which_way_they_leak_and_missing_teachers_are_named(studies, tmp_path):
    name = "of_a_plugin"

    @registered.register(name)
    @dataclass(frozen=True, kw_only=True)
    class OfAPlugin(Metric):
        """Distance of pixels."""

        leaks_when = "low"

        def per_image(self, truth, guess):
            return (truth - guess).square().flatten(1).mean(1)

    untaught = make_study(tmp_path / "untaught", dataset="third.npz", first=80)
    vote(untaught, ("inception_v3 lineup 4",))
    try:
        (one,) = evaluate([untaught], QUICK, lessons=studies, axes=("data set",), metrics=(name, "mse")).tests
    finally:
        del registered._classes[name]
    theirs, mse = (next(metric for metric in one.found.metrics if metric.name == other) for other in (name, "mse"))
    assert theirs.known
    assert theirs.auc_within_original.mean == pytest.approx(mse.auc_within_original.mean)
    assert one.missing == {"classifier": "no teaching classifier voted on some of these pictures"}


def test_pairs_in_opposite_orders_are_counted_once_and_perfect_ones_do_not_differ():
    psnr = np.array([np.inf, np.inf, 20.0, 10.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert turned(psnr, np.array([0.1, 0.2, 0.3, 0.4])) == 0  # high PSNR where SemSim is low
        assert turned(psnr, np.array([0.4, 0.3, 0.2, 0.1])) == 5
