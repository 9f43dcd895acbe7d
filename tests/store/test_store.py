"""The store keeps what it was given, all or nothing, and refuses what it cannot read."""

from __future__ import annotations

import math
import sqlite3

import pytest

from glasshouse.errors import StudyError
from glasshouse.store import ImageRecord, ReconstructionRecord, Score, Store

IMAGES = [ImageRecord(place, f"id{place}", place, "cat", f"images/{place}.png", "0" * 64) for place in range(2)]


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "glasshouse.db")
    store.add_images(IMAGES)
    store.add_cases([("k1", {"attack": "a"}), ("k2", {"attack": "b"})])
    yield store
    store.close()


def test_results_stay_when_cases_are_planned_anew_and_the_others_lose_their_place(store):
    store.finish("k1", {"seconds": 1.0}, [ReconstructionRecord("k1", 0, "images/g.png", "1" * 64)])
    store.add_images(IMAGES)
    store.add_cases([("k1", {"attack": "other"}), ("k3", {"attack": "c"})])
    assert store.images() == IMAGES
    cases = {case.key: case for case in store.cases()}
    assert cases["k1"].state == "done"
    assert cases["k1"].described == {"attack": "other"}
    assert cases["k1"].outcome == {"seconds": 1.0}
    assert cases["k3"].state == "pending"
    assert {key: case.planned for key, case in cases.items()} == {"k1": True, "k2": False, "k3": True}


def test_finishing_is_all_or_nothing(store):
    missing_image = ReconstructionRecord("k1", 99, "images/g.png", "1" * 64)
    with pytest.raises(Exception, match="FOREIGN KEY"):
        store.finish("k1", {}, [ReconstructionRecord("k1", 0, "images/g.png", "1" * 64), missing_image])
    assert {case.key: case.state for case in store.cases()}["k1"] == "pending"
    assert store.reconstructions() == []


def test_failures_and_resets(store):
    store.fail("k2", "no reason at all")
    assert [case.reason for case in store.cases()] == [None, "no reason at all"]
    store.finish("k1", {}, [ReconstructionRecord("k1", 0, "images/g.png", "1" * 64)])
    store.add_scores([Score("k1", 0, "mse", 0.5)])
    store.reset(["k1", "k2"])
    assert {case.state for case in store.cases()} == {"pending"}
    assert store.scores() == {}
    assert store.reconstructions() == []
    store.reset([])


@pytest.mark.parametrize(
    ("statement", "look", "table"),
    [
        ("UPDATE images SET label = 7", Store.images, "images"),
        ("UPDATE cases SET described = '{\"attack\": '", Store.cases, "cases"),
        ("UPDATE cases SET outcome = '{}' WHERE key = 'k1'", Store.cases, "cases"),
        ("UPDATE reconstructions SET sha256 = 'x'", Store.cases, "cases"),
        ("DELETE FROM reconstructions", Store.cases, "cases"),
        ("UPDATE targets SET outcome = '{\"accuracy\": 1}'", Store.targets, "targets"),
        ("UPDATE probes SET outcome = 'x'", Store.probes, "probes"),
        ("UPDATE scores SET value = 0.75", Store.scores, "scores"),
    ],
)
def test_who_only_reads_notices_damage_too(store, tmp_path, statement, look, table):
    store.finish("k1", {"seconds": 1.0}, [ReconstructionRecord("k1", 0, "images/g.png", "1" * 64)])
    store.add_targets([("t", {})])
    store.finish_target("t", {"accuracy": 0.5})
    store.add_probes([("p", {})])
    store.finish_probe("p", {"auc": 0.5})
    store.add_scores([Score("k1", 0, "mse", 0.5)])
    look(store)
    with sqlite3.connect(tmp_path / "glasshouse.db") as connection:
        connection.execute(statement)
    with pytest.raises(StudyError, match=rf"is damaged \({table}\): run the command that made it again"):
        look(store)


def test_scores_replace_and_keep_infinity(store):
    store.add_scores([Score("k1", 0, "psnr", 20.0), Score("k1", 0, "ssim", None)])
    store.add_scores([Score("k1", 0, "psnr", math.inf)])
    assert store.scores() == {("k1", 0, "psnr"): math.inf, ("k1", 0, "ssim"): None}


def test_a_newer_schema_is_refused(tmp_path):
    Store(tmp_path / "glasshouse.db").close()
    with sqlite3.connect(tmp_path / "glasshouse.db") as connection:
        connection.execute("INSERT INTO schema_version VALUES (999)")
    with pytest.raises(StudyError, match="newer Glasshouse"):
        Store(tmp_path / "glasshouse.db")


def test_a_file_that_is_no_database_is_refused(tmp_path):
    (tmp_path / "glasshouse.db").write_bytes(b"this is not a database, whatever its name says" * 100)
    with pytest.raises(StudyError, match="not a usable database"):
        Store(tmp_path / "glasshouse.db")


def test_a_migration_that_was_cut_short_starts_again(forked, tmp_path):
    """The tables and the number of a migration appear together or not at all."""
    code = (
        "import sys; from pathlib import Path; from glasshouse.store import migrations as m\n"
        "m.MIGRATIONS = ((*m.MIGRATIONS[0][:2], 'SELECT crash()'),)\n"
        "from glasshouse.store import Store\n"
        "Store(Path(sys.argv[1]))"
    )
    assert "crash" in forked(code, str(tmp_path / "g.db")).stderr
    store = Store(tmp_path / "g.db")
    assert store.cases() == []
    store.close()
