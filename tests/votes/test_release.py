"""A released data set is whole, without names, and never overwrites anything."""

from __future__ import annotations

import csv
import re
from dataclasses import replace

import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from glasshouse.errors import StudyError
from glasshouse.store import DATABASE_FILE, Vote, Votes
from glasshouse.votes.bundle import load
from glasshouse.votes.importers import read_bundle
from glasshouse.votes.items import Questions, prepare
from glasshouse.votes.release import release


@pytest.fixture
def voted(study, votes):
    prepare(study, votes, Questions())
    for name in ("Ada Lovelace", "Charles Babbage"):
        person = votes.invite(name).id
        for item in votes.claim(person, 0, 6):
            votes.vote(Vote(item.id, person, item.truth, when=1.0))
    return votes


def test_pictures_votes_and_card(study, voted, tmp_path):
    release(study, voted, tmp_path / "set")
    assert sorted(path.name for path in (tmp_path / "set").iterdir()) == [
        "README.md",
        "images",
        "votes.csv",
        "votes.json",
    ]
    everything = b"".join(path.read_bytes() for path in (tmp_path / "set").rglob("*") if path.is_file())
    assert b"Lovelace" not in everything
    with (tmp_path / "set" / "votes.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["annotator"] for row in rows} == {"human 1", "human 2", ""}
    assert all((tmp_path / "set" / row["image"]).is_file() for row in rows)
    card = (tmp_path / "set" / "README.md").read_text()
    assert "| votes, human | 12 |" in card
    assert "| items, reconstruction | 12 |" in card
    assert "| conditions (model, defense, attack) | 2 |" in card
    assert "for research" in card
    assert list(tmp_path.glob(".*.part")) == []


def test_a_released_set_can_be_imported(study, voted, tmp_path):
    release(study, voted, tmp_path / "set")
    copy = tmp_path / "copy"
    copy.mkdir()
    store = Votes(copy / DATABASE_FILE)
    load(read_bundle(tmp_path / "set" / "votes.csv", copy), store)
    assert len(store.votes()) == 12
    assert all((copy / item.image).is_file() for item in store.items())
    store.close()


def test_nothing_is_overwritten_and_nothing_is_left_half_done(study, voted, tmp_path):
    (tmp_path / "set").mkdir()
    with pytest.raises(StudyError, match="is there already"):
        release(study, voted, tmp_path / "set")
    (study / "images" / "g0.png").unlink()
    with pytest.raises(StudyError, match=r"g0\.png is missing"):
        release(study, voted, tmp_path / "other")
    assert not (tmp_path / "other").exists()
    assert list(tmp_path.glob(".*.part")) == []


def test_no_path_of_a_database_leads_out_of_the_study(study, voted, tmp_path):
    (tmp_path / "secret.png").write_bytes(b"secret")
    voted.add_items([replace(voted.items()[0], id="evil", case_key="evil", image="../secret.png")])
    with pytest.raises(StudyError, match="leads out"):
        release(study, voted, tmp_path / "set")
    assert not (tmp_path / "set").exists()


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        (DATABASE_FILE, "leads out"),
        ("audit.json", "leads out"),
        ("../study/images/g0.png", "leads out"),
        ("images/notes.png", "no whole PNG"),
    ],
)
def test_only_pictures_are_released(study, voted, tmp_path, file, reason):
    (study / "images" / "notes.png").write_text("no picture")
    voted.add_items([replace(voted.items()[0], id="evil", case_key="evil", image=file)])
    with pytest.raises(StudyError, match=reason):
        release(study, voted, tmp_path / "set")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["study"]


def test_no_name_of_a_database_becomes_a_path(study, voted, tmp_path):
    """A picture under a name that tells lands among the others, without its name and its comments."""
    comment = PngInfo()
    comment.add_text("Comment", "class rocket")
    Image.new("RGB", (4, 4)).save(study / "images" / "rocket.png", pnginfo=comment)
    voted.add_items([replace(voted.items()[0], id="odd", case_key="odd", image="images/rocket.png")])
    release(study, voted, tmp_path / "set")
    with (tmp_path / "set" / "votes.csv").open() as file:
        (row,) = (row for row in csv.DictReader(file) if row["item"] == "odd")
    assert re.fullmatch(r"images/[0-9a-f]{24}\.png", row["image"])
    assert b"rocket" not in (tmp_path / "set" / row["image"]).read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["set", "study"]


def test_without_results_the_terms_are_unknown(study, voted, tmp_path):
    (study / "audit.json").unlink()
    release(study, voted, tmp_path / "set")
    assert "unknown: ask" in (tmp_path / "set" / "README.md").read_text()
