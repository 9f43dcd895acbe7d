"""Each variant of a training is tried, one after another, and one that fails says why."""

from __future__ import annotations

import numpy as np
import pytest

from glasshouse.errors import DataError, SettingError
from glasshouse.semsim import Recipe
from glasshouse.studies import evaluation
from glasshouse.studies.ablation import Ranges, ablate, in_panels
from glasshouse.studies.semsim import Lesson

QUICK = Lesson(backbone="lenet", recipe=Recipe(epochs=1, batch=8))
pytestmark = pytest.mark.usefixtures("cheap_lpips")


def test_each_variant_changes_one_thing(studies):
    ranges = Ranges(sizes=(10,), backbones=("lenet",), losses=("contrastive",), margins=(0.5,))
    seen = []
    found = ablate(studies, QUICK, ranges=ranges, progress=lambda done, total: seen.append((done, total)))
    rows = [one.to_json() for one in found]
    assert seen[-1] == (6, 6)
    assert [(row["panel"], row["value"], row["originals"]) for row in rows] == [
        ("training originals", "0", 0),
        ("training originals", "10", 10),
        ("training originals", "12", 12),
        ("backbone", "lenet", 12),
        ("loss", "contrastive", 12),
        ("margin of the triplet loss", "0.5", 12),
    ]
    assert all(-1 <= row["tau"] <= 1 for row in rows)
    with pytest.raises(DataError, match="To test on 'cifar10'"):
        next(ablate(studies, QUICK, left_out="cifar10"))


def test_lessons_teach_what_is_ablated(studies):
    (found,) = ablate(
        studies[:1], QUICK, lessons=studies[1:], ranges=Ranges(sizes=(), backbones=(), losses=("rank",), margins=())
    )
    assert (found.test.left_out, found.test.originals) == ("first.npz", 12)


def test_large_backbones_may_learn_from_fewer(studies):
    ranges = Ranges(sizes=(), backbones=("lenet",), losses=("rank",), margins=(1.0,), originals=10)
    assert [one.test.originals for one in ablate(studies, QUICK, ranges=ranges)] == [10, 10, 10]
    with pytest.raises(SettingError, match="originals=3 is out of range"):
        Ranges(originals=3)


def test_what_several_panels_hold_is_trained_once(studies, monkeypatch):
    lessons, learn = [], Lesson.learn
    monkeypatch.setattr(Lesson, "learn", lambda self, some: lessons.append(self) or learn(self, some))
    ranges = Ranges(sizes=(10,), backbones=("lenet",), losses=("rank",), margins=())
    rows = [one.to_json() for one in ablate(studies, QUICK, ranges=ranges)]
    assert [lesson.recipe.epochs for lesson in lessons] == [0, 1, 1]  # nothing, 10 originals, all 12
    whole = [{**row, "panel": None, "value": None} for row in rows[2:]]
    assert whole[0] == whole[1] == whole[2]


def test_rows_made_at_different_times_stand_in_panels():
    made = [("size", 0), ("size", 50), ("loss", 90), ("size", 20)]
    rows = in_panels({"panel": panel, "originals": count} for panel, count in made)
    assert [(row["panel"], row["originals"]) for row in rows] == [("size", 0), ("size", 20), ("size", 50), ("loss", 90)]


def test_a_variant_that_collapses_says_so_and_the_next_goes_on(studies, monkeypatch):
    collapsed = iter([0.5, np.nan])
    honest = evaluation.distances

    def distances(network, judgements):
        value = next(collapsed, None)
        return honest(network, judgements) if value is None else np.full(len(judgements.guesses), value)

    monkeypatch.setattr(evaluation, "distances", distances)
    ranges = Ranges(sizes=(), backbones=(), losses=("rank", "triplet", "contrastive"), margins=())
    same, none, whole = (one.to_json() for one in ablate(studies, QUICK, ranges=ranges))
    assert same["failed"] == "SemSim is the same for every model"
    assert none["failed"].startswith("SemSim is not defined for some of the images")
    assert same["tau"] is none["tau"] is whole["failed"] is None
    assert -1 <= whole["tau"] <= 1


@pytest.mark.parametrize(
    ("wrong", "said"),
    [({"sizes": (-3,)}, "sizes=-3"), ({"sizes": (9,)}, "sizes=9"), ({"sizes": (np.nan,)}, "sizes=nan")],
)
def test_sizes_that_cannot_be(wrong, said):
    with pytest.raises(SettingError, match=f"{said} is out of range: use a whole number from 10"):
        Ranges(**wrong)


def test_without_anything_to_try():
    with pytest.raises(SettingError, match="nothing to try"):
        Ranges(sizes=(), backbones=(), losses=(), margins=())


def test_what_cannot_be_trained_is_refused_before_the_first_training(studies, monkeypatch):
    monkeypatch.setattr(Lesson, "learn", lambda self, some: pytest.fail("it was trained"))
    with pytest.raises(SettingError, match="backbone=lenett is not known"):
        Lesson(backbone="lenett")
    with pytest.raises(SettingError, match="lenet cannot be trained with published weights"):
        Lesson(backbone="lenet", pretrained=True)
    with pytest.raises(SettingError, match="backbone=lenett is not known"):
        next(ablate(studies, QUICK, ranges=Ranges(backbones=("lenet", "lenett"))))
