"""A study remembers where it keeps its results and pictures, without passwords, and stays there."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing, suppress

import fsspec
import pytest

from glasshouse.errors import StudyError
from glasshouse.files import sole_owner
from glasshouse.store import DATABASE_FILE, STORAGE_FILE, Album, ImageRecord, Location, Store


@pytest.fixture(autouse=True)
def _nobodys_memory():
    fsspec.filesystem("memory").store.clear()


def test_a_study_keeps_things_in_its_directory_unless_told_otherwise(tmp_path):
    location = Location.asked(tmp_path, None, None)
    assert not location.exists()
    location.settle()
    assert location == Location.of(tmp_path)
    assert (location.database, location.album.where) == (tmp_path / DATABASE_FILE, tmp_path / "images")
    assert [path.name for path in tmp_path.iterdir()] == [DATABASE_FILE]


def test_urls_are_found_again_without_being_told(tmp_path):
    Location.asked(tmp_path, f"sqlite:///{tmp_path}/other.db", "memory://x").settle()
    for found in (Location.of(tmp_path), Location.asked(tmp_path, None, None)):
        assert found.exists()
        assert (found.database, found.album.where) == (f"sqlite:///{tmp_path}/other.db", "memory://x")


def test_files_and_directories_are_found_from_everywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = Location.asked(tmp_path, "sqlite:///other.db", "pictures").storage
    assert (found.store, found.pictures) == (f"sqlite:///{tmp_path}/other.db", str(tmp_path / "pictures"))


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_a_password_is_used_but_never_written(database, tmp_path):
    url = database.replace("tester@", "tester:secret@")
    location = Location.asked(tmp_path, url, None)
    location.settle()
    assert location.database == url
    assert "secret" not in (tmp_path / STORAGE_FILE).read_text()
    assert Location.asked(tmp_path, url, None).database == url  # the same place, said again
    assert Location.of(tmp_path).database == database


def test_pictures_with_a_password_are_refused(tmp_path):
    with pytest.raises(StudyError, match="FSSPEC_FTP_PASSWORD") as caught:
        Location.asked(tmp_path, None, "ftp://user:secret@127.0.0.1/x")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("asked", [("sqlite:///other.db", None), (None, "memory://x")])
def test_a_study_that_began_in_its_directory_stays_there(asked, tmp_path):
    Store(tmp_path / DATABASE_FILE).close()
    with pytest.raises(StudyError, match=r"in its directory: leave --(store|pictures) out"):
        Location.asked(tmp_path, *asked)


@pytest.mark.parametrize("asked", [("sqlite:///third.db", None), (None, "memory://y")])
def test_a_study_that_began_elsewhere_stays_there(asked, tmp_path):
    Location.asked(tmp_path, f"sqlite:///{tmp_path}/other.db", "memory://x").settle()
    with pytest.raises(StudyError, match=r"(other\.db|memory://x): leave --(store|pictures) out"):
        Location.asked(tmp_path, *asked)


def test_a_file_that_is_none_is_refused(tmp_path):
    (tmp_path / STORAGE_FILE).write_text("schema = 1\nstore = 3\n")
    with pytest.raises(StudyError, match="line 2"):
        Location.of(tmp_path)


@pytest.fixture
def settled(tmp_path):
    """A study that keeps its results in a file and its pictures in a directory, on another disk."""
    location = Location.asked(tmp_path / "study", f"sqlite:///{tmp_path}/disk/other.db", f"{tmp_path}/disk/pictures")
    with location.held():
        location.settle()
    return location


def again(location):
    """The next run of the same command."""
    found = Location.asked(location.directory, None, None)
    with found.held():
        found.settle()


def test_a_place_that_knows_its_study_is_used_again(settled):
    before = Location.of(settled.directory)
    assert before.storage.marked
    again(settled)
    assert Location.of(settled.directory) == before


@pytest.mark.parametrize("lost", ["disk", "disk/other.db", "disk/pictures"])
def test_a_place_that_is_not_mounted_is_no_place_where_all_is_lost(settled, tmp_path, lost):
    (tmp_path / lost).rename(tmp_path / "unmounted")
    with pytest.raises(StudyError, match="is it mounted"):
        again(settled)
    assert not (tmp_path / lost).exists()  # nothing is laid where another disk belongs
    (tmp_path / "unmounted").rename(tmp_path / lost)
    again(settled)


def test_what_is_lost_for_good_is_begun_anew_as_the_refusal_says(settled, tmp_path):
    shutil.rmtree(tmp_path / "disk")
    file = settled.directory / STORAGE_FILE
    file.write_text("\n".join(line for line in file.read_text().splitlines() if not line.startswith("marked")))
    again(settled)
    assert settled.album.owner() == settled.storage.study


@pytest.mark.parametrize("killed", [(Store, "claim"), (Album, "prepare"), (Album, "claim")])
def test_a_run_that_was_killed_before_its_places_knew_it_goes_on(killed, tmp_path, monkeypatch):
    def die(*arguments):
        raise KeyboardInterrupt

    first = Location.asked(tmp_path / "study", f"sqlite:///{tmp_path}/new.db", f"{tmp_path}/new")
    with monkeypatch.context() as patch, suppress(KeyboardInterrupt):
        patch.setattr(*killed, die)
        first.settle()
    assert not Location.of(first.directory).storage.marked
    again(first)
    assert Location.of(first.directory).storage.marked


@pytest.mark.parametrize("shared", ["store", "pictures", "beside its plan"])
def test_a_second_study_is_refused_where_another_is_at_home(settled, tmp_path, shared):
    (tmp_path / "first").mkdir()
    Location.asked(tmp_path / "first", None, None).settle()
    places = {
        "store": (settled.storage.store, None),
        "pictures": (None, settled.storage.pictures),
        "beside its plan": (f"sqlite:///{tmp_path}/first/{DATABASE_FILE}", None),
    }
    second = Location.asked(tmp_path / "second", *places[shared])
    with pytest.raises(StudyError, match="belongs to another study: go on in the directory of that one"), second.held():
        pytest.fail("held")
    assert not (tmp_path / "second").exists()


def test_a_file_by_url_is_held_by_one_run_and_mended(settled, tmp_path):
    with settled.held(), pytest.raises(StudyError, match=r"Another run is working on .*other\.db"), settled.held():
        pytest.fail("held twice")
    store = Store(settled.database)
    store.add_images([ImageRecord(0, "id", 3, "cat", "images/0.png", "0" * 64)])
    store.close()
    with closing(sqlite3.connect(tmp_path / "disk" / "other.db")) as connection, connection:
        connection.execute("UPDATE images SET label = 9")
    again(settled)
    store = Store(settled.database)
    assert store.images() == []
    store.close()


def damaged(file, statement):
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(statement)


@pytest.fixture
def neighbour(tmp_path):
    """A study that keeps all in its directory, with an image whose row is damaged."""
    location = Location.asked(tmp_path / "neighbour", None, None)
    location.directory.mkdir()
    location.settle()
    with closing(Store(location.database)) as store:
        store.add_images([ImageRecord(0, "id", 3, "cat", "images/0.png", "0" * 64)])
    damaged(location.database, "UPDATE images SET label = 9")
    return location


def refused(location, match):
    """Nothing of a neighbour's database is touched where a study is refused that was told to use it."""
    second = Location.asked(location.directory.parent / "second", f"sqlite:///{location.database}", None)
    with pytest.raises(StudyError, match=match), second.held():
        pytest.fail("held")
    with closing(sqlite3.connect(location.database)) as connection:
        assert connection.execute("SELECT label FROM images").fetchall() == [(9,)]


def test_the_database_of_another_study_is_not_mended(neighbour):
    refused(neighbour, "belongs to another study")


def test_a_database_that_does_not_say_any_more_whose_it_is_is_nobody_elses_to_mend(neighbour):
    damaged(neighbour.database, "UPDATE study SET name = 'x'")
    refused(neighbour, "does not say any more whose it is")


def test_a_database_in_a_directory_is_held_with_it_however_it_is_named(neighbour):
    with sole_owner(neighbour.directory):
        refused(neighbour, "Another run is working on .*neighbour: wait for it, or choose another --store")
        inside = Location.asked(neighbour.directory.parent / "third", f"sqlite:///{neighbour.database}", None)
        own = Location(neighbour.directory, inside.storage)
        with pytest.raises(StudyError, match="belongs to another study"), own.held():  # held, and so only asked whose
            pytest.fail("held")


@pytest.mark.parametrize("statement", ["UPDATE study SET name = 'x'", "UPDATE study SET seal = 1"])
def test_a_study_whose_name_is_damaged_is_known_again(settled, tmp_path, statement):
    with closing(Store(settled.database)) as store:
        store.add_cases([("case", {"model": "lenet"})])
    damaged(tmp_path / "disk" / "other.db", statement)
    with Location.of(settled.directory).held(), closing(Store(settled.database)) as store:
        assert store.owner() == settled.storage.study
        assert [case.key for case in store.cases()] == ["case"]
    again(settled)


@pytest.mark.parametrize("pictures", ["{}/pictures", "memory://{}/pictures"])
def test_of_two_studies_that_begin_at_once_one_gets_the_pictures(tmp_path, pictures):
    place = pictures.format(tmp_path)
    first, second = (Location.asked(tmp_path / name, None, place) for name in ("first", "second"))
    with first.held(), second.held():  # both see a place of nobody
        first.settle()
        with pytest.raises(StudyError, match="pictures belongs to another study"):
            second.settle()
    assert first.album.owner() == first.storage.study
    assert not Location.of(second.directory).storage.marked
    again(first)
