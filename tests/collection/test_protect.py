"""A protected set holds no raw image, comes back to the bit, and survives a kill at any moment."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from glasshouse.collection import new_key, protect, read_key, unprotect
from glasshouse.collection.protect import read_version
from glasshouse.defenses import csvar
from glasshouse.errors import DataError, SettingError, StudyError
from glasshouse.files import write_atomic

KEY = bytes(range(32))
FORMATS = ("png", "npz", "shards")


@pytest.fixture
def folder(tmp_path) -> Path:
    """Ten pictures in two classes, colour and grey, of different sizes, and two files that cannot be read."""
    rng = np.random.default_rng(0)
    for number in range(10):
        shape = (20 + number, 24, 3) if number % 2 else (20 + number, 24)
        path = tmp_path / "in" / f"class{number % 2}" / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, shape, dtype=np.uint8)).save(path)
    (tmp_path / "in" / "class0" / "empty.png").write_bytes(b"")
    (tmp_path / "in" / "class1" / "1.bmp").write_bytes(b"another 1")
    return tmp_path / "in"


@pytest.fixture
def archive(tmp_path) -> Path:
    """Twelve equal pictures in an NPZ file."""
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (12, 16, 16, 3), dtype=np.uint8)
    np.savez_compressed(
        tmp_path / "set.npz",
        x_train=pixels[:8],
        y_train=np.arange(8),
        x_test=pixels[8:],
        y_test=np.arange(4),
        class_names=np.array([str(k) for k in range(8)]),
    )
    return tmp_path / "set.npz"


def pictures(root: Path) -> dict[str, np.ndarray]:
    return {
        p.relative_to(root).with_suffix("").as_posix(): np.asarray(Image.open(p)) for p in sorted(root.rglob("*.png"))
    }


@pytest.mark.parametrize("files", ["png", "shards"])
def test_a_folder_comes_back_to_the_bit(folder, tmp_path, files):
    found = protect(folder, tmp_path / "out", key=KEY, epochs=3, files=files)
    assert found.images == 9
    assert [line.partition(":")[0] for line in found.unreadable] == ["class0/empty.png", "class1/1.bmp", "class1/1.png"]
    (folder / "class0" / "empty.png").unlink()
    raw = pictures(folder)
    del raw["class1/1"]
    for epoch in (0, 2):
        assert unprotect(tmp_path / "out", tmp_path / f"back{epoch}", key=KEY, epoch=epoch) == 9
        restored = pictures(tmp_path / f"back{epoch}")
        assert restored.keys() == raw.keys()
        assert all(np.array_equal(restored[name], raw[name]) for name in raw)


@pytest.mark.parametrize("files", FORMATS)
def test_an_archive_comes_back_to_the_bit(archive, tmp_path, files):
    protect(archive, tmp_path / "out", key=KEY, epochs=2, files=files)
    assert unprotect(tmp_path / "out", tmp_path / "back", key=KEY, epoch=1) == 12
    raw = np.load(archive)
    for name, pixels in pictures(tmp_path / "back").items():
        part, _, index = name.partition("/")
        assert np.array_equal(pixels, raw[part][int(index)])
    assert np.array_equal(np.load(tmp_path / "out" / "labels.npz")["y_train"], raw["y_train"])


def test_versions_are_what_the_key_says_and_no_raw_image_is_written(archive, tmp_path):
    protect(archive, tmp_path / "out", key=KEY, epochs=2)
    raw = np.load(archive)["x_train"]
    versions = [dict(read_version(tmp_path / "out", epoch)) for epoch in (0, 1)]
    for index, image in enumerate(raw):
        name = f"x_train/{index:06d}"
        for epoch in (0, 1):
            assert np.array_equal(versions[epoch][name], csvar.shuffle(image, key=KEY, ids=name, epoch=epoch))
            assert not np.array_equal(versions[epoch][name], image)
        assert not np.array_equal(versions[0][name], versions[1][name])
    everything = b"".join(path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file())
    assert KEY not in everything
    assert KEY.hex().encode() not in everything
    with pytest.raises(SettingError, match="epoch=2"):
        list(read_version(tmp_path / "out", 2))


def test_workers_write_the_same_files(archive, tmp_path):
    for workers in (1, 2):
        protect(archive, tmp_path / f"out{workers}", key=KEY, epochs=2, workers=workers)
    one, two = (
        {p.relative_to(root): p.read_bytes() for p in root.rglob("*") if p.is_file()}
        for root in (tmp_path / "out1", tmp_path / "out2")
    )
    assert one == two


@pytest.mark.parametrize(
    ("files", "failpoint"),
    [
        ("png", "file.before_rename:2"),
        ("png", "file.after_rename:5"),
        ("png", "manifest.before_fsync:2"),
        ("png", "manifest.after_fsync:2"),
        ("npz", "file.before_rename:2"),
        ("npz", "manifest.before_fsync:2"),
        ("shards", "file.before_rename:2"),
        ("shards", "manifest.before_fsync:2"),
    ],
)
def test_killed_anywhere_the_same_command_ends_with_the_same_files(glasshouse, archive, tmp_path, files, failpoint):
    new_key(tmp_path / "key")
    words = ["protect", str(archive), str(tmp_path / "out"), "--format", files, "--epochs", "2"]
    done = glasshouse(*words, "--key-file", str(tmp_path / "key"), GLASSHOUSE_FAILPOINT=failpoint)
    if done.returncode != -signal.SIGKILL:
        assert files != "png"  # so few files that the place was never reached
    with pytest.raises(DataError, match=r"not finished|cannot be read") if done.returncode else _nothing():
        unprotect(tmp_path / "out", tmp_path / "early", key=read_key(tmp_path / "key"))
    protect(archive, tmp_path / "out", key=read_key(tmp_path / "key"), epochs=2, files=files)
    protect(archive, tmp_path / "whole", key=read_key(tmp_path / "key"), epochs=2, files=files)
    one, two = (
        {p.relative_to(root): _content(p) for p in root.rglob("*") if p.is_file()}
        for root in (tmp_path / "out", tmp_path / "whole")
    )
    assert one == two


def _content(path: Path) -> object:
    """What a file holds; archives carry the time they were made, so their arrays count."""
    if path.suffix == ".npz":
        with np.load(path) as archive:
            return {name: archive[name].tolist() for name in archive.files}
    return path.read_bytes()


def _nothing():
    from contextlib import nullcontext

    return nullcontext()


def test_a_second_run_writes_nothing_again(archive, tmp_path):
    protect(archive, tmp_path / "out", key=KEY, epochs=2)
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*.png")}
    protect(archive, tmp_path / "out", key=KEY, epochs=2)
    assert times == {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*.png")}


def test_an_archive_whose_rows_changed_is_another_source(archive, tmp_path):
    """Its names are numbers and say nothing of what they stand for."""
    protect(archive, tmp_path / "out", key=KEY, epochs=1)
    with np.load(archive) as held:
        arrays = {name: held[name] for name in held.files}
    np.savez_compressed(archive, **{**arrays, "x_train": arrays["x_train"][::-1]})
    with pytest.raises(DataError, match="other images than the source holds now"):
        protect(archive, tmp_path / "out", key=KEY, epochs=1)


@pytest.mark.parametrize("files", FORMATS)
def test_restoring_goes_on_after_a_failure(archive, tmp_path, monkeypatch, files):
    protect(archive, tmp_path / "out", key=KEY, epochs=1, files=files)
    restored = []

    def fill_up(path: Path, data: bytes) -> None:
        if len(restored) == 5 and path.suffix == ".png":
            raise StudyError("No space left")
        restored.extend([path] if path.suffix == ".png" else [])
        write_atomic(path, data)

    with monkeypatch.context() as patch:
        patch.setattr(sys.modules[unprotect.__module__], "write_atomic", fill_up)
        with pytest.raises(StudyError, match="No space left"):
            unprotect(tmp_path / "out", tmp_path / "back", key=KEY)
    times = {path: path.stat().st_mtime_ns for path in restored}
    assert len(times) == 5
    (tmp_path / "back" / f".{'0' * 16}.part").touch()  # as a kill would leave it
    assert unprotect(tmp_path / "out", tmp_path / "back", key=KEY) == 12
    assert times == {path: path.stat().st_mtime_ns for path in restored}
    raw = np.load(archive)
    for name, pixels in pictures(tmp_path / "back").items():
        part, number = name.split("/")
        assert np.array_equal(pixels, raw[part][int(number)])
    assert {path.suffix for path in (tmp_path / "back").rglob("*") if path.is_file()} == {".png"}
    with pytest.raises(DataError, match="not empty"):
        unprotect(tmp_path / "out", tmp_path / "back", key=KEY)


def test_another_sets_half_restored_directory_is_refused(archive, tmp_path):
    protect(archive, tmp_path / "out", key=KEY, epochs=1)
    (tmp_path / "back").mkdir()
    (tmp_path / "back" / ".restoring").write_text("another")
    with pytest.raises(DataError, match="not empty"):
        unprotect(tmp_path / "out", tmp_path / "back", key=KEY)


def test_the_wrong_key_settings_and_directories_are_refused(archive, tmp_path):
    protect(archive, tmp_path / "out", key=KEY, epochs=2)
    with pytest.raises(DataError, match="another key"):
        protect(archive, tmp_path / "out", key=KEY[::-1], epochs=2)
    with pytest.raises(DataError, match="other settings"):
        protect(archive, tmp_path / "out", key=KEY, epochs=3)
    with pytest.raises(DataError, match="did not protect"):
        unprotect(tmp_path / "out", tmp_path / "back", key=KEY[::-1])
    assert not (tmp_path / "back").exists()
    (tmp_path / "back").mkdir()
    (tmp_path / "back" / "precious").touch()
    with pytest.raises(DataError, match="not empty"):
        unprotect(tmp_path / "out", tmp_path / "back", key=KEY)
    with pytest.raises(DataError, match="holds no protected"):
        protect(archive, tmp_path / "back", key=KEY, epochs=1)
    with pytest.raises(DataError, match="is this a protected"):
        unprotect(tmp_path / "nowhere", tmp_path / "b2", key=KEY)
    with pytest.raises(SettingError, match="format=jpg"):
        protect(archive, tmp_path / "x", key=KEY, epochs=1, files="jpg")
    with pytest.raises(SettingError, match="epochs=0"):
        protect(archive, tmp_path / "x", key=KEY, epochs=0)


def test_changed_files_and_hostile_manifests_are_noticed(archive, tmp_path):
    protect(archive, tmp_path / "out", key=KEY, epochs=1)
    target = tmp_path / "out" / "epoch_000" / "x_train" / "000000.png"
    kept = target.read_bytes()
    Image.fromarray(np.zeros((16, 16, 3), np.uint8)).save(target)
    with pytest.raises(DataError, match="was changed"):
        unprotect(tmp_path / "out", tmp_path / "b1", key=KEY)
    target.write_bytes(kept)
    manifest = tmp_path / "out" / "manifest.jsonl"
    lines = manifest.read_text().splitlines()
    for field in ("file", "identity"):
        fact = json.loads(lines[1])
        fact[field] = "../../../etc/passwd"
        manifest.write_text("\n".join([lines[0], json.dumps(fact), *lines[2:]]) + "\n")
        with pytest.raises(DataError, match=r"outside|does not restore|not an image"):
            unprotect(tmp_path / "out", tmp_path / f"b_{field}", key=KEY)
    manifest.write_text("\n".join([lines[0], "{broken", *lines[2:]]) + "\n")
    with pytest.raises(DataError, match="line 2 is damaged"):
        unprotect(tmp_path / "out", tmp_path / "b3", key=KEY)


@pytest.mark.parametrize("size", [(1, 1), (2, 300), (17, 5)])
def test_odd_sizes(tmp_path, size):
    (tmp_path / "in").mkdir()
    pixels = np.random.default_rng(0).integers(0, 256, (*size, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "in" / "a.png")
    protect(tmp_path / "in", tmp_path / "out", key=KEY, epochs=1)
    unprotect(tmp_path / "out", tmp_path / "back", key=KEY)
    assert np.array_equal(pictures(tmp_path / "back")["a"], pixels)


def test_nothing_to_protect(tmp_path):
    (tmp_path / "in").mkdir()
    with pytest.raises(DataError, match="no readable image"):
        protect(tmp_path / "in", tmp_path / "out", key=KEY, epochs=1)
    with pytest.raises(DataError, match="neither a directory"):
        protect(tmp_path / "missing", tmp_path / "out2", key=KEY, epochs=1)
    (tmp_path / "broken.npz").write_bytes(b"PK not really")
    with pytest.raises(DataError, match="cannot be read"):
        protect(tmp_path / "broken.npz", tmp_path / "out3", key=KEY, epochs=1)
    np.savez(tmp_path / "float.npz", x_train=np.zeros((2, 4, 4)))
    with pytest.raises(DataError, match="give 8-bit"):
        protect(tmp_path / "float.npz", tmp_path / "out4", key=KEY, epochs=1)


def test_images_of_different_shapes_need_another_format(folder, tmp_path):
    with pytest.raises(DataError, match="use --format png or shards"):
        protect(folder, tmp_path / "out", key=KEY, epochs=1, files="npz")


def test_a_full_disk_leaves_no_half_written_file(forked, tmp_path):
    """A limit on the size of files stops a write in its middle, as a full disk does."""
    code = (
        "import resource, signal, sys; from pathlib import Path; from glasshouse.files import write_atomic\n"
        "from glasshouse.errors import StudyError\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
        "try:\n    write_atomic(Path(sys.argv[1]) / 'file', bytes(1000))\n"
        "except StudyError as error:\n    print(str(error)[:12])"
    )
    assert forked(code, str(tmp_path)).stdout == "Cannot write\n"
    assert not (tmp_path / "file").exists()
    assert not list(tmp_path.glob(".*"))
    write_atomic(tmp_path / "file", b"fits")
    with pytest.raises(StudyError):
        write_atomic(Path("/proc/nothing/here"), b"")
