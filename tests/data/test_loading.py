from __future__ import annotations

import pytest

from glasshouse import data
from glasshouse.errors import DataError, SettingError, UnknownNameError


def test_a_name_loads_a_registered_set():
    assert data.load("digits").name == "digits"


def test_size_overrides_the_spec():
    assert data.load("photos:size=16", size=24).spec.shape == (3, 24, 24)


def test_split_is_honoured_for_names_as_for_files():
    assert len(data.load("digits", split="train")) == 1500


def test_a_file_is_read_by_split_and_size(tmp_path, save_npz):
    path = save_npz(tmp_path / "mine.npz")
    assert len(data.load(str(path))) == 4
    found = data.load(str(path), split="train", size=5)
    assert (len(found), found.spec.shape) == (6, (3, 5, 5))
    assert found.batch([0])[0].shape == (1, 3, 5, 5)


def test_a_directory_is_read_with_size(tmp_path, draw):
    draw(tmp_path / "pictures" / "a.png", 10, size=(6, 8))
    found = data.load(str(tmp_path / "pictures"), size=4)
    assert (found.name, found.spec.shape) == ("pictures", (1, 4, 4))


def test_the_current_directory_has_a_name(tmp_path, draw, monkeypatch):
    draw(tmp_path / "pictures" / "a.png")
    monkeypatch.chdir(tmp_path / "pictures")
    assert data.load(".").name == "pictures"


def test_a_path_with_a_colon_is_a_path(tmp_path, draw):
    draw(tmp_path / "12:30" / "a.png")
    assert data.load(str(tmp_path / "12:30")).ids == ["a"]


@pytest.mark.parametrize(
    ("source", "error", "reason"),
    [
        ("photso", UnknownNameError, "Did you mean 'photos'"),
        ("nothing.npz", DataError, r"no file nothing\.npz"),
        ("no/such/folder", DataError, "neither a directory nor"),
        ("photos:sise=3", UnknownNameError, "Did you mean 'size'"),
        ("photos:size=big", SettingError, "size=big"),
        ("", SettingError, "write a name"),
    ],
)
def test_what_cannot_be_loaded_is_refused_with_a_hint(source, error, reason):
    with pytest.raises(error, match=reason):
        data.load(source)


def test_a_file_that_is_no_npz_is_refused_by_name(tmp_path):
    (tmp_path / "images.zip").write_bytes(b"PK")
    with pytest.raises(DataError, match=r"images\.zip is neither"):
        data.load(str(tmp_path / "images.zip"))


def test_a_senseless_size_is_refused_for_files_too(tmp_path, save_npz):
    path = save_npz(tmp_path / "mine.npz")
    with pytest.raises(SettingError, match="size=-3"):
        data.load(str(path), size=-3)
