"""SemSim learns from the votes of studies: whose, of what, and refusing what teaches nothing."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from safetensors.torch import load_file
from tests.judged_study import make_study, vote

from glasshouse.errors import DataError, SettingError, StudyError, UnknownNameError, WeightsError
from glasshouse.semsim import Embedding, Judged, Recipe, load, notes
from glasshouse.semsim.backbones import build
from glasshouse.studies import teaching
from glasshouse.studies.judgements import TEACHERS, read
from glasshouse.studies.semsim import Lesson, teachers, train

QUICK = Lesson(backbone="lenet", recipe=Recipe(epochs=2, batch=8))


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    directory = make_study(tmp_path_factory.mktemp("judged") / "study")
    vote(directory, ("alexnet lineup 4", "vgg16 lineup 4", "inception_v3 lineup 4"))
    return directory


@pytest.fixture(autouse=True)
def cheap_lpips(monkeypatch):
    """The mean squared error in the place of LPIPS, whose weights are not everywhere and take long."""
    monkeypatch.setattr(teaching, "SIGNS", ("mse", "ssim"))


def test_votes_come_with_their_pictures_and_cases(study):
    found = read([study], "classifier", TEACHERS)
    assert set(found.voters) == {"alexnet lineup 4", "vgg16 lineup 4"}
    assert (len(found.originals), len(found.guesses)) == (12, 96)
    assert found.datasets == ("nowhere.npz",)
    for guess in found.guesses:
        assert guess.facts["model"] == guess.case_key.split()[0]
        assert found.originals[guess.owner].picture.shape == guess.picture.shape
        assert set(guess.hits) == set(guess.grades) == {"alexnet lineup 4", "vgg16 lineup 4"}
    some = found.only(lambda guess: guess.facts["model"] == "open" and guess.place > 5)
    assert (len(some.originals), len(some.guesses)) == (6, 24)
    assert int(some.owners.max()) == 5


def test_one_original_of_two_studies_is_one(study, tmp_path):
    again = make_study(tmp_path / "again")
    vote(again, ("alexnet lineup 4",))
    found = read([study, again], "classifier", ["alexnet lineup 4"])
    assert (len(found.originals), len(found.guesses)) == (12, 96)  # what was made of it is the same, too


def test_studies_of_other_sizes_stand_side_by_side(study, tmp_path):
    other = make_study(tmp_path / "other", dataset="elsewhere.npz", size=32, first=40)
    vote(other, ("alexnet lineup 4",))
    trained = train([study, other], tmp_path / "own.safetensors", QUICK)
    assert trained.datasets == ("nowhere.npz", "elsewhere.npz")
    left = teachers([study, other], leave_out=["elsewhere.npz"])
    assert left.datasets == ("nowhere.npz",)
    with pytest.raises(UnknownNameError, match="data set to leave out"):
        teachers([study, other], leave_out=["cifar"])


def test_people_come_before_classifiers_and_are_never_mixed(study, tmp_path):
    mixed = make_study(tmp_path / "mixed")
    vote(mixed, ("Ada", "Bob"), "human")
    vote(mixed, ("alexnet lineup 4",))
    assert teachers([mixed]).voters == ("Ada", "Bob")
    assert teachers([mixed], "classifier").voters == ("alexnet lineup 4",)
    train([mixed], tmp_path / "own.safetensors", QUICK)
    assert notes(tmp_path / "own.safetensors")["judges"] == "human: 2 people"
    people = teachers([mixed])
    assert teaching.values(people).tolist() == pytest.approx([guess.share for guess in people.guesses])


def test_classifiers_teach_a_value_that_falls_as_more_is_hidden(study):
    found = read([study], "classifier", TEACHERS)
    graded = teaching.values(found)
    assert ((graded >= 0) & (graded <= 1)).all()
    hidden = torch.tensor([float(guess.case_key.split()[1]) for guess in found.guesses])
    means = [float(graded[hidden == degree].mean()) for degree in (0.05, 0.3, 0.6, 0.95)]
    assert means == sorted(means, reverse=True)
    shares = torch.tensor([guess.share for guess in found.guesses])
    assert float(graded.mean()) == pytest.approx(float(shares.mean()), abs=0.05)


def test_decoys_are_other_originals_and_mean_colours_and_nobody_sees_them(study):
    found = read([study], "classifier", TEACHERS)
    judged = teaching.taught(found, torch.linspace(0, 1, 96), Recipe())
    assert isinstance(judged, Judged)
    assert len(judged.guesses) == len(judged.owners) == 96 + 24
    assert not judged.values[96:].any()
    assert judged.said[:96].tolist() == pytest.approx([guess.share for guess in found.guesses])
    assert judged.said[96:].isnan().all()
    for place in range(12):
        other, grey = judged.guesses[96 + place], judged.guesses[108 + place]
        own = judged.originals[int(judged.owners[96 + place])]
        assert not torch.equal(other, own)
        assert any(torch.equal(other, original.picture) for original in found.originals)
        assert torch.allclose(grey, own.mean((1, 2), keepdim=True).expand_as(own))


def test_probabilities_speak_of_attacks_where_there_are_any(study):
    found = read([study], "classifier", TEACHERS)
    ours = [
        dataclasses.replace(one, attacked=one.owner > 3 and place % 2 == 0) for place, one in enumerate(found.guesses)
    ]
    judged = teaching.taught(dataclasses.replace(found, guesses=tuple(ours)), torch.linspace(0, 1, 96), Recipe())
    counted = ~judged.said[:96].isnan()
    assert [one.attacked or one.owner <= 3 for one in ours] == counted.tolist()


def test_originals_that_are_held_out_are_decoys_of_one_another_only(study):
    found = read([study], "classifier", TEACHERS)
    recipe = Recipe(held_out=0.25, seed=5)
    parts = recipe.parts(12, torch.Generator().manual_seed(5))
    assert sorted(torch.cat(parts).tolist()) == list(range(12))
    side = {place: number for number, part in enumerate(parts) for place in part.tolist()}
    judged = teaching.taught(found, torch.linspace(0, 1, 96), recipe)
    for owner, decoy in zip(judged.owners[96:108].tolist(), judged.guesses[96:108], strict=True):
        (shown,) = (place for place, one in enumerate(found.originals) if torch.equal(one.picture, decoy))
        assert side[shown] == side[owner]
    lonely = teaching.taught(found, torch.linspace(0, 1, 96), Recipe(held_out=0.05))
    assert len(lonely.guesses) == 96 + 11 + 12  # the one that is held out has no other beside it


def test_the_file_says_whose_judgements_and_is_the_same_by_seed(study, tmp_path):
    first, second = tmp_path / "first.safetensors", tmp_path / "second.safetensors"
    trained = train([study], first, QUICK)
    train([study], second, QUICK)
    assert trained.judges == "classifier: alexnet lineup 4, vgg16 lineup 4"
    assert notes(first) == notes(second)
    assert notes(first)["judges"] == trained.judges
    one, two = load_file(first), load_file(second)
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert isinstance(load(first), Embedding)
    before = first.read_bytes()
    with pytest.raises(WeightsError, match="is there already"):
        train([study], first, QUICK)
    assert first.read_bytes() == before


def test_what_teaches_nothing_is_refused_and_writes_nothing(tmp_path):
    file = tmp_path / "own.safetensors"
    study = make_study(tmp_path / "study", originals=4)
    with pytest.raises(DataError, match="no human or classifier votes"):
        train([study], file, QUICK)
    vote(study, ("alexnet lineup 4",))
    with pytest.raises(DataError, match="4 originals are too few"):
        train([study], file, QUICK)
    for always, which in ((True, "every"), (False, "no")):
        one_sided = make_study(tmp_path / which)
        vote(one_sided, ("Ada",), "human", always=always)
        with pytest.raises(DataError, match="one-sided"):
            train([one_sided], file, QUICK)
    with pytest.raises(StudyError, match="holds no study"):
        train([tmp_path / "nowhere"], file, QUICK)
    assert not file.exists()


def test_presets_and_backbones():
    lesson = Lesson.of("paper", loss=None, margin=0.5, epochs=3, lr=None, seed=4)
    paper = lesson.recipe
    assert (lesson.backbone, Lesson.of("paper", "lenet").backbone, Lesson.of("quick").backbone) == (
        "resnet50",
        "lenet",
        "alexnet",
    )
    assert (paper.loss, paper.margin, paper.epochs, paper.seed) == ("triplet", 0.5, 3, 4)
    assert (paper.lr, paper.batch) == (0.1, 128)
    assert Lesson.of("quick", loss="contrastive").recipe.loss == "contrastive"
    with pytest.raises(SettingError, match="preset"):
        Lesson.of("slow")
    assert build("lenet").kind == "embedding"
    with pytest.raises(SettingError, match="cannot be trained with published weights"):
        build("lenet", pretrained=True)
    with pytest.raises(SettingError, match="cannot be trained from fresh weights"):
        build("alexnet", pretrained=False)
    with pytest.raises(SettingError, match="backbone"):
        build("vgg")
