"""Keys are secret, and what is no key is refused."""

from __future__ import annotations

import stat

import pytest

from glasshouse.collection import new_key, read_key
from glasshouse.errors import SettingError


def test_a_new_key_is_for_its_owner_only_and_never_overwritten(tmp_path):
    path = tmp_path / "key"
    new_key(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    key = read_key(path)
    assert len(key) == 32
    with pytest.raises(SettingError, match="is there already"):
        new_key(path)
    assert read_key(path) == key
    new_key(tmp_path / "other")
    assert read_key(tmp_path / "other") != key


def test_a_key_that_others_may_read_is_refused(tmp_path):
    new_key(tmp_path / "key")
    (tmp_path / "key").chmod(0o644)
    with pytest.raises(SettingError, match="chmod 600"):
        read_key(tmp_path / "key")


@pytest.mark.parametrize(
    "content",
    [b"", b"glasshouse key 1\nabcd\n", b"glasshouse key 1\n" + b"zz" * 32, b"\xff\xfe", b"-----BEGIN KEY-----\n"],
)
def test_what_is_no_key_is_refused(tmp_path, content):
    path = tmp_path / "key"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(SettingError, match="is not a key"):
        read_key(path)


def test_places_that_cannot_be_used(tmp_path):
    with pytest.raises(SettingError, match="Cannot read the key"):
        read_key(tmp_path / "nothing")
    with pytest.raises(SettingError, match="Cannot write"):
        new_key(tmp_path / "no" / "such" / "folder")
