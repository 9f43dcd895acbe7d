"""Databases are opened by file or URL, and what cannot be used is refused in words."""

from __future__ import annotations

import threading
from contextlib import suppress

import pytest
from sqlalchemy import text

from glasshouse.errors import StudyError
from glasshouse.store import Database, ImageRecord, Item, Score, Store, Vote, Votes, migrations
from glasshouse.store.database import Queue


def test_results_are_kept_on_both_databases(database, tmp_path):
    store = Store(database or tmp_path / "glasshouse.db")
    image = ImageRecord(0, "id", 3, "cat", "images/0.png", "0" * 64)
    store.add_images([image, image])
    store.add_cases([("k", {"attack": "a"})])
    store.add_scores([Score("k", 0, "psnr", float("inf")), Score("k", 0, "ssim", None)])
    store.fail("k", "reason")
    assert store.images() == [image]
    assert store.scores() == {("k", 0, "psnr"): float("inf"), ("k", 0, "ssim"): None}
    assert [(case.state, case.reason) for case in store.cases()] == [("failed", "reason")]
    store.close()


def test_a_study_of_before_votes_keeps_its_results(database, tmp_path, monkeypatch):
    where = database or tmp_path / "glasshouse.db"
    with monkeypatch.context() as before:
        before.setattr(migrations, "MIGRATIONS", migrations.MIGRATIONS[:1])
        old = Database(where)
        old.write("INSERT INTO scores VALUES ('k', 0, 'psnr', :value)", [{"value": 1.0}])
        old.close()
    store, votes = Store(where), Votes(where)
    assert store.scores() == {("k", 0, "psnr"): 1.0}
    assert votes.items() == []
    store.close()
    votes.close()


def test_a_study_of_before_grades_keeps_its_items(database, tmp_path, monkeypatch):
    where = database or tmp_path / "glasshouse.db"
    item = Item("a", "classification", "original", "o", "original", "", 0, ("cat", "dog"), "cat")
    with monkeypatch.context() as before:
        before.setattr(migrations, "MIGRATIONS", migrations.MIGRATIONS[:3])
        old = Votes(where)
        old.add_items([item])
        ada = old.invite("Ada").id
        old.close()
    votes = Votes(where)
    votes.record([Vote("a", ada, "cat", when=1.0)])
    assert votes.votes() == [Vote("a", ada, "cat", when=1.0)]
    votes.close()


def test_a_url_of_sqlite_is_a_file(tmp_path):
    Database(f"sqlite:///{tmp_path}/votes.db").close()
    assert (tmp_path / "votes.db").is_file()


@pytest.mark.parametrize("url", ["mysql://host/x", "nonsense", "sqlite://", "postgresql+nothing://host/x"])
def test_another_url_is_refused(url):
    with pytest.raises(StudyError, match=r"sqlite:///FILE or postgresql://USER@HOST"):
        Database(url)


def test_a_server_that_is_not_there_is_named_without_its_password():
    with pytest.raises(StudyError, match="start the server") as caught:
        Database("postgresql+psycopg://user:secret@127.0.0.1:1/x")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://user:secret@127.0.0.1:1/x",
        "postgresql://user@127.0.0.1:1/x?password=secret",
        "postgresql://user:a@secret@127.0.0.1:1/x",  # an @ that nobody quoted
        "postgresql://user:secret@127.0.0.1:port/x",
        "mysql://user:secret@127.0.0.1/x",
        "user:secret@127.0.0.1/x",
    ],
)
def test_no_error_shows_a_password(url):
    with pytest.raises(StudyError) as caught:
        Database(url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
@pytest.mark.parametrize("name", ["postgresql", "postgres"])
def test_a_server_is_named_as_its_own_programs_name_it(database, name):
    opened = Database(database.replace("postgresql+psycopg", name))
    assert opened.read("SELECT 1 AS one") == [{"one": 1}]
    opened.close()


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_a_second_run_on_a_server_is_refused_until_the_first_is_over(database):
    first, second = Database(database), Database(database)
    with first.held(), pytest.raises(StudyError, match="Another run is working"), second.held():
        pass
    with second.held():
        pass
    first.close()
    second.close()


def test_a_failed_block_leaves_nothing(database, tmp_path):
    opened = Database(database or tmp_path / "glasshouse.db")
    with suppress(RuntimeError), opened.writing() as connection:
        connection.execute(text("UPDATE annotation SET seed = 99"))
        raise RuntimeError
    assert opened.read("SELECT seed FROM annotation") == [{"seed": 0}]
    opened.close()


def test_a_reader_does_not_wait_for_a_writer(database, tmp_path):
    opened = Database(database or tmp_path / "glasshouse.db")
    with opened.writing() as connection:
        connection.execute(text("UPDATE annotation SET seed = 99"))
        assert opened.read("SELECT seed FROM annotation") == [{"seed": 0}]
    assert opened.read("SELECT seed FROM annotation") == [{"seed": 99}]
    opened.close()


def test_a_queue_serves_in_the_order_of_coming():
    queue, served, threads = Queue(), [], []
    with queue:
        for number in range(8):
            threads.append(threading.Thread(target=lambda number=number: _wait(queue, served, number)))
            threads[-1].start()
            while len(queue._waiting) <= number:
                pass
    for thread in threads:
        thread.join()
    assert served == list(range(8))


def _wait(queue, served, number):
    with queue:
        served.append(number)


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_what_postgresql_cannot_hold_is_said_in_words(database):
    opened = Database(database)
    with pytest.raises(StudyError, match="refuses a value"):
        opened.write("UPDATE annotation SET owner_hash = :text", [{"text": "a\x00b"}])
    opened.close()
