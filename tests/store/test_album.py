"""Pictures are kept in a directory or by URL; what is lost is told from what cannot be reached."""

from __future__ import annotations

import secrets
from pathlib import Path

import fsspec
import pytest

from glasshouse.errors import PictureError, StudyError
from glasshouse.store import Album, Carried


@pytest.fixture(params=["directory", "file", "memory"])
def album(request, tmp_path):
    places = {
        "directory": tmp_path / "images",
        "file": f"file://{tmp_path}/images",
        "memory": f"memory://{secrets.token_hex(4)}",
    }
    return Album(places[request.param])


def test_what_is_written_is_read(album):
    album.prepare()
    assert not album.has("images/one.png")
    album.write("images/one.png", b"first")
    album.write("images/one.png", b"second")
    assert album.has("images/one.png")
    assert album.read("images/one.png") == b"second"


def test_the_file_lies_where_the_url_says(tmp_path):
    for place in (tmp_path / "a", f"file://{tmp_path}/a"):
        Album(place).write("images/one.png", b"content")
        assert [path.name for path in (tmp_path / "a").iterdir()] == ["one.png"]
    where = f"memory://{secrets.token_hex(4)}"
    Album(where).write("images/one.png", b"content")
    assert fsspec.open(f"{where}/one.png").open().read() == b"content"


def test_a_lost_picture_is_told_from_a_place_that_cannot_be_reached(album, monkeypatch):
    with pytest.raises(PictureError, match="missing"):
        album.read("images/none.png")

    def refuse(*arguments, **settings):
        raise PermissionError("nobody may")

    monkeypatch.setattr("fsspec.implementations.local.LocalFileSystem.cat_file", refuse)
    monkeypatch.setattr("fsspec.implementations.memory.MemoryFileSystem.cat_file", refuse)
    with pytest.raises(StudyError, match="can be reached") as caught:
        album.read("images/none.png")
    assert not isinstance(caught.value, PictureError)


@pytest.mark.parametrize("file", ["../a.png", "images/../a.png", "/etc/a.png", "images/", "images/..", "a.png"])
def test_no_name_leads_elsewhere(album, file):
    for use in (album.read, album.has):
        with pytest.raises(StudyError, match="leads out of"):
            use(file)


@pytest.mark.parametrize("where", ["nothing://x", "s3a-no://bucket"])
def test_an_unknown_place_is_refused(where):
    with pytest.raises(StudyError, match="a URL that fsspec knows"):
        Album(where).refuse()


def test_a_place_that_can_only_be_read_is_refused():
    with pytest.raises(StudyError, match="cannot be written"):
        Album("data://x").write("images/one.png", b"content")


def test_what_a_killed_run_left_is_swept(tmp_path):
    left = tmp_path / f".{'0' * 16}.part"
    left.write_bytes(b"half")
    Album(f"file://{tmp_path}").prepare()
    assert not left.exists()


def test_only_disks_are_near(album):
    assert album.near == (isinstance(album.where, Path) or album.where.startswith("file"))


def test_pictures_are_carried_along(album):
    album.write("images/one.png", b"content")
    carried = Carried.of(album, ["images/one.png"])
    assert carried.near
    assert carried.read("images/one.png") == b"content"
    with pytest.raises(PictureError, match="not sent along"):
        carried.read("images/two.png")
