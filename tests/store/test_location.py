"""A study remembers where it keeps its results and pictures, without passwords, and stays there."""

from __future__ import annotations

import pytest

from glasshouse.errors import StudyError
from glasshouse.store import DATABASE_FILE, STORAGE_FILE, Location, Store


def test_a_study_keeps_things_in_its_directory_unless_told_otherwise(tmp_path):
    location = Location.asked(tmp_path, None, None)
    location.save()
    assert location == Location.of(tmp_path)
    assert (location.database, location.album.where) == (tmp_path / DATABASE_FILE, tmp_path / "images")
    assert not location.exists()
    assert list(tmp_path.iterdir()) == []


def test_urls_are_found_again_without_being_told(tmp_path):
    Location.asked(tmp_path, f"sqlite:///{tmp_path}/other.db", "memory://x").save()
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
    location.save()
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
    Location.asked(tmp_path, f"sqlite:///{tmp_path}/other.db", "memory://x").save()
    with pytest.raises(StudyError, match=r"(other\.db|memory://x): leave --(store|pictures) out"):
        Location.asked(tmp_path, *asked)


def test_a_file_that_is_none_is_refused(tmp_path):
    (tmp_path / STORAGE_FILE).write_text("schema = 1\nstore = 3\n")
    with pytest.raises(StudyError, match="line 2"):
        Location.of(tmp_path)
