"""Items come from a study's directory, once, with the answers of their original."""

from __future__ import annotations

from collections import Counter

import pytest

from glasshouse.data.images import read_image
from glasshouse.errors import SettingError, StudyError
from glasshouse.store import Votes
from glasshouse.votes.items import Questions, prepare


def test_classification_asks_about_originals_and_reconstructions(study, votes):
    assert prepare(study, votes, Questions()) == 18
    items = votes.items()
    assert Counter(item.role for item in items) == {"original": 6, "reconstruction": 12}
    for item in items:
        assert item.answers == ("bird", "cat", "dog")
        assert item.truth in item.answers
        assert item.beside is None
        assert len(item.id) == len(item.original) == 32
        assert (study / item.image).is_file()
    assert len({item.original for item in items}) == 6
    assert {item.condition for item in items} == {
        "original",
        "lenet / none / idlg / round 0 / eval",
        "lenet / prune / idlg / round 0 / eval",
    }


def test_preparing_again_adds_only_what_is_new(study, votes):
    prepare(study, votes, Questions())
    before = votes.items()
    assert prepare(study, votes, Questions()) == 0
    assert prepare(study, votes, Questions(shuffled=True)) == 6
    after = votes.items()
    assert set(before) < set(after)
    originals = {item.place: item.original for item in before}
    assert all(originals[item.place] == item.original for item in after)


def test_a_shuffled_picture_has_the_values_of_its_original(study, votes):
    prepare(study, votes, Questions(shuffled=True))
    shuffled = [item for item in votes.items() if item.role == "shuffled"]
    assert len(shuffled) == 6
    for item in shuffled:
        pixels, truth = read_image(study / item.image), read_image(study / f"images/t{item.place}.png")
        assert (pixels != truth).any()
        assert sorted(pixels.ravel()) == sorted(truth.ravel())


def test_pairs_have_decoys_of_another_class_beside_the_original(study, votes):
    assert prepare(study, votes, Questions(task="pair", decoys=0.5)) == 18
    items = votes.items()
    originals = {item.original: item.place for item in items}
    decoys = [item for item in items if item.role == "decoy"]
    assert len(decoys) == 6
    for item in items:
        assert item.answers == ("same", "different")
        assert item.beside == f"images/t{item.place}.png"
    for decoy in decoys:
        assert decoy.truth == "different"
        assert originals[decoy.other] % 3 != decoy.place % 3
        shown = next(one for one in items if one.role == "reconstruction" and one.image == decoy.image)
        assert (shown.original, shown.condition) == (decoy.other, decoy.condition)


def test_nobody_sees_an_original_twice_through_a_decoy(study, votes):
    prepare(study, votes, Questions(task="pair", decoys=1.0))
    for number in range(4):
        ada = votes.invite(f"annotator {number}").id
        shown = [original for item in votes.claim(ada, 0, 99) for original in item.shows]
        assert len(shown) == len(set(shown))


def test_an_imported_study_has_its_items(study, votes, tmp_path):
    prepare(study, votes, Questions())
    imported = Votes(tmp_path / "glasshouse.db")
    imported.add_items(votes.items())
    assert prepare(tmp_path, imported, Questions()) == 0
    assert len(imported.items()) == 18
    imported.close()


def test_what_cannot_be_asked_is_refused(study, tmp_path):
    votes = Votes(tmp_path / "other.db")
    with pytest.raises(StudyError, match="import votes with pictures, or run an audit into a new directory"):
        prepare(tmp_path, votes, Questions())
    empty = tmp_path / "empty"
    empty.mkdir()
    Votes(empty / "glasshouse.db").close()
    with pytest.raises(StudyError, match="import votes with pictures, or run an audit into a new directory"):
        prepare(empty, votes, Questions())
    with pytest.raises(SettingError, match="decoys=2"):
        Questions(decoys=2)
    with pytest.raises(SettingError, match="Unknown task"):
        prepare(study, votes, Questions(task="guessing"))
    votes.close()
