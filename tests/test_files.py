"""Files appear whole or not at all, and a folder has one owner."""

from __future__ import annotations

import fcntl
import signal
from pathlib import Path

import pytest

from glasshouse.errors import StudyError
from glasshouse.files import is_unused, sole_owner, sole_user, write_atomic, write_new

WRITE = (
    "import sys; from pathlib import Path; from glasshouse.files import write_atomic\n"
    "write_atomic(Path(sys.argv[1]), b'new')"
)


@pytest.mark.parametrize(
    ("place", "expected"),
    [("file.before_fsync", b"old"), ("file.before_rename", b"old"), ("file.after_rename", b"new")],
)
def test_killed_anywhere_a_reader_sees_old_or_new(forked, tmp_path, place, expected):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    assert forked(WRITE, str(path), GLASSHOUSE_FAILPOINT=place).returncode == -signal.SIGKILL
    assert path.read_bytes() == expected
    write_atomic(path, b"newer")
    assert path.read_bytes() == b"newer"


def test_a_failpoint_counts_visits(forked, tmp_path):
    done = forked(WRITE, str(tmp_path / "file"), GLASSHOUSE_FAILPOINT="file.before_rename:2")
    assert done.returncode == 0


def test_one_owner_at_a_time(tmp_path):
    with sole_owner(tmp_path), pytest.raises(StudyError, match="Another run"), sole_owner(tmp_path):
        pass
    with sole_owner(tmp_path):
        pass


def test_a_lock_goes_with_its_holder_and_takes_along_folders_that_stay_empty(tmp_path):
    with pytest.raises(StudyError, match="refused"), sole_owner(tmp_path / "outer" / "inner"):
        raise StudyError("refused")
    assert not list(tmp_path.iterdir())
    (tmp_path / "empty").mkdir()
    with sole_owner(tmp_path / "empty"), sole_owner(tmp_path / "outer" / "inner"):
        (tmp_path / "outer" / "kept").touch()
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["empty", "kept", "outer"]


def test_a_lock_that_was_taken_away_after_it_was_opened_holds_nothing(tmp_path, monkeypatch):
    """Between opening a lock and holding it, its last holder may remove it: a third would then make another."""
    really, removed = fcntl.flock, []

    def after_the_last_holder_left(handle, how):
        if not removed:
            removed.append((tmp_path / ".lock").unlink())
        really(handle, how)

    monkeypatch.setattr(fcntl, "flock", after_the_last_holder_left)
    with sole_owner(tmp_path), pytest.raises(StudyError, match="Another run"), sole_owner(tmp_path):
        pass
    assert removed


def test_places_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(StudyError, match="choose another"):
        write_atomic(tmp_path / "file" / "inner", b"")
    with pytest.raises(StudyError, match="choose another --out"), sole_owner(tmp_path / "file"):
        pass


@pytest.mark.parametrize("links", [True, False])
def test_a_new_file_never_takes_the_place_of_another(tmp_path, monkeypatch, links):
    def refuse(path, target):
        raise PermissionError("no links here")

    if not links:
        monkeypatch.setattr(Path, "hardlink_to", refuse)
    for content in (b"first", b"second"):
        write_new(tmp_path / "file", content)
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"first"]


def test_a_folder_with_locks_alone_is_unused(tmp_path):
    with sole_owner(tmp_path), sole_user(tmp_path / "x.db"):
        assert len(list(tmp_path.iterdir())) == 2
        assert is_unused(tmp_path)
    (tmp_path / "x.db").touch()
    assert not is_unused(tmp_path)
