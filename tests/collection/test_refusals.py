"""What a protected set must never become: raw, mixed up, or unreadable for good."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from glasshouse.collection import protect, unprotect
from glasshouse.collection.formats import FORMATS, Npz
from glasshouse.collection.manifest import NAME
from glasshouse.collection.sources import open_source
from glasshouse.errors import DataError, GlasshouseError, SettingError

KEY = bytes(range(32))


def folder(path: Path, names: str, size: int = 16) -> Path:
    path.mkdir(exist_ok=True)
    for number, name in enumerate(names):
        pixels = np.random.default_rng(number).integers(0, 256, (size, size, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(path / f"{name}.png")
    return path


@pytest.mark.parametrize("block_size", [-1, 0, 4, 5])
def test_blocks_that_move_nothing_are_refused(tmp_path, block_size):
    source = folder(tmp_path / "in", "a")  # 16 px: regions of 4
    with pytest.raises(SettingError, match="moves nothing"):
        protect(source, tmp_path / "out", key=KEY, epochs=1, block_size=block_size)
    assert not list((tmp_path / "out").rglob("*.png"))


def test_a_source_that_changed_is_not_gone_on_with(tmp_path):
    source = folder(tmp_path / "in", "bc")
    protect(source, tmp_path / "out", key=KEY, epochs=1)
    folder(source, "a")
    with pytest.raises(GlasshouseError, match="other images"):
        protect(source, tmp_path / "out", key=KEY, epochs=1)
    with pytest.raises(GlasshouseError, match="other images"):
        protect(folder(tmp_path / "else", "xy"), tmp_path / "out", key=KEY, epochs=1)
    assert unprotect(tmp_path / "out", tmp_path / "back", key=KEY) == 2


def test_output_inside_the_source_is_refused(tmp_path):
    source = folder(tmp_path / "in", "a")
    with pytest.raises(GlasshouseError, match="lies inside"):
        protect(source, source / "out", key=KEY, epochs=1)


def test_equal_images_do_not_show_as_equal(tmp_path):
    source = folder(tmp_path / "in", "a")
    (source / "b.png").write_bytes((source / "a.png").read_bytes())
    protect(source, tmp_path / "out", key=KEY, epochs=2)
    facts = [json.loads(line) for line in (tmp_path / "out" / NAME).read_text().splitlines()]
    originals = {fact["identity"]: fact["original"] for fact in facts if "identity" in fact}
    assert originals["a"] != originals["b"]


@pytest.mark.parametrize("left", [b"", b'{"files": "png"'])
def test_a_first_line_cut_short_is_written_again(tmp_path, left):
    source = folder(tmp_path / "in", "ab")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / NAME).write_bytes(left)
    assert protect(source, tmp_path / "out", key=KEY, epochs=1).images == 2
    assert unprotect(tmp_path / "out", tmp_path / "back", key=KEY) == 2


@pytest.mark.parametrize(
    "change",
    [
        {"files": "zip"},
        {"epochs": "9"},
        {"block_size": "x"},
        {"channel_wise": 3},
        {"schema": 99},
        {"extra": 1},
    ],
)
def test_a_foreign_header_is_one_line(tmp_path, change):
    protect(folder(tmp_path / "in", "a"), tmp_path / "out", key=KEY, epochs=1)
    lines = (tmp_path / "out" / NAME).read_text().splitlines()
    lines[0] = json.dumps({**json.loads(lines[0]), **change})
    (tmp_path / "out" / NAME).write_text("\n".join(lines) + "\n")
    with pytest.raises(GlasshouseError):
        unprotect(tmp_path / "out", tmp_path / "back", key=KEY)


@pytest.mark.parametrize("change", [{"file": 3}, {"epoch": "0"}, {"more": 1}, {"sha256": None}])
def test_a_foreign_version_is_one_line(tmp_path, change):
    protect(folder(tmp_path / "in", "a"), tmp_path / "out", key=KEY, epochs=1)
    lines = (tmp_path / "out" / NAME).read_text().splitlines()
    lines[1] = json.dumps({**json.loads(lines[1]), **change})
    (tmp_path / "out" / NAME).write_text("\n".join(lines) + "\n")
    with pytest.raises(GlasshouseError):
        unprotect(tmp_path / "out", tmp_path / "back", key=KEY)


@pytest.mark.parametrize("rows", [1, 3])
def test_an_archive_with_another_number_of_images_is_refused(tmp_path, rows):
    protect(folder(tmp_path / "in", "ab"), tmp_path / "out", key=KEY, epochs=1, files="npz")
    (file,) = (tmp_path / "out").rglob("*.npz")
    with np.load(file) as archive:
        images, ids = archive["images"], archive["ids"]
    np.savez(file, images=np.concatenate([images, images])[:rows], ids=ids)
    with pytest.raises(GlasshouseError):
        unprotect(tmp_path / "out", tmp_path / "back", key=KEY)


def test_a_folder_that_cannot_be_listed_is_named(tmp_path, monkeypatch):
    source = folder(tmp_path / "in", "a")
    (source / "closed").mkdir()
    listed = os.scandir

    def closed(path):
        if Path(path).name == "closed":
            raise PermissionError(13, "Permission denied", str(path))
        return listed(path)

    monkeypatch.setattr(os, "scandir", closed)
    with pytest.raises(DataError, match=r"closed cannot be listed \(Permission denied\)"):
        protect(source, tmp_path / "out", key=KEY, epochs=1)


@pytest.mark.parametrize(
    ("pixels", "message"),
    [
        (np.zeros((3, 0, 8, 3), np.uint8), "whose images are empty"),
        (np.full((3, 8, 8, 3), np.nan, np.float32), "give 8-bit"),
    ],
)
def test_a_source_that_is_refused_leaves_nothing_that_refuses_the_next(tmp_path, pixels, message):
    np.savez(tmp_path / "bad.npz", x_train=pixels, y_train=np.zeros(3))
    with pytest.raises(DataError, match=message):
        protect(tmp_path / "bad.npz", tmp_path / "out", key=KEY, epochs=1)
    assert not (tmp_path / "out").exists()
    assert protect(folder(tmp_path / "in", "ab"), tmp_path / "out", key=KEY, epochs=2, files="npz").images == 2


def test_what_was_written_is_not_forgotten(tmp_path, monkeypatch):
    source = folder(tmp_path / "in", "abc")
    (source / "c.png").unlink()
    folder(source, "d", size=8)
    monkeypatch.setitem(FORMATS, "npz", Npz(images=2))
    folder(source, "e", size=16)
    with pytest.raises(DataError, match="different shapes"):
        protect(source, tmp_path / "out", key=KEY, epochs=1, files="npz")
    with pytest.raises(DataError, match="other settings"):
        protect(source, tmp_path / "out", key=KEY, epochs=1, files="png")


def test_some_images_of_a_source(tmp_path):
    source = folder(tmp_path / "in", "abc")
    np.savez(tmp_path / "set.npz", x_train=np.zeros((3, 8, 8), np.uint8))
    assert [one.identity for one in open_source(source).some({"a", "c", "z"})] == ["a", "c"]
    assert [one.identity for one in open_source(tmp_path / "set.npz").some({"x_train/000001"})] == ["x_train/000001"]


def test_names_that_are_no_text_are_kept(tmp_path):
    source = folder(tmp_path / "in", "a")
    (source / "a.png").rename(source / "b\udcff.png")
    assert protect(source, tmp_path / "out", key=KEY, epochs=1).images == 1


def test_a_full_disk_leaves_no_half_of_a_key(forked, tmp_path):
    """A limit on the size of files stops a write in its middle, as a full disk does."""
    code = (
        "import resource, signal, sys; from pathlib import Path; from glasshouse.collection import new_key\n"
        "from glasshouse.errors import SettingError\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))\n"
        "try:\n    new_key(Path(sys.argv[1]))\nexcept SettingError:\n    sys.exit(3)"
    )
    assert forked(code, str(tmp_path / "key")).returncode == 3
    assert not (tmp_path / "key").exists()
