from __future__ import annotations

import gzip
import struct

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from glasshouse import data
from glasshouse.data.mnist import read_idx
from glasshouse.errors import DataError

IMAGES, LABELS = "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"


def idx(array):
    return b"\0\0\x08" + bytes([array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


@pytest.fixture
def arrays():
    rng = np.random.default_rng(0)
    return {
        "train-images-idx3-ubyte": rng.integers(0, 256, (5, 28, 28), dtype=np.uint8),
        "train-labels-idx1-ubyte": np.array([5, 0, 4, 1, 9], np.uint8),
        IMAGES: rng.integers(0, 256, (3, 28, 28), dtype=np.uint8),
        LABELS: np.array([7, 2, 1], np.uint8),
    }


@pytest.fixture
def root(tmp_path, arrays):
    (tmp_path / "mnist").mkdir()
    for name, array in arrays.items():
        (tmp_path / "mnist" / name).write_bytes(idx(array))
    return tmp_path


@pytest.mark.parametrize("folder", ["MNIST/raw", "mnist", "."])
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gz"])
def test_images_and_labels_wherever_the_files_are(tmp_path, arrays, folder, packed):
    (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    for name, array in arrays.items():
        content = gzip.compress(idx(array)) if packed else idx(array)
        (tmp_path / folder / (f"{name}.gz" if packed else name)).write_bytes(content)
    found = data.load("mnist", root=tmp_path)
    assert (found.name, found.spec.shape, found.spec.classes) == ("mnist", (1, 28, 28), 10)
    assert list(found.labels) == [7, 2, 1]
    assert np.array_equal(found.read(2)[:, :, 0], arrays[IMAGES][2])


def test_train_split_ids_names_and_terms(root, arrays):
    found = data.load("mnist:split=train", root=root)
    assert list(found.labels) == [5, 0, 4, 1, 9]
    assert np.array_equal(found.read(4)[:, :, 0], arrays["train-images-idx3-ubyte"][4])
    assert found.ids[4] == "x_train/000004"
    assert found.class_names == tuple("0123456789")
    assert "LeCun" in found.terms


def test_a_missing_companion_is_named(root):
    (root / "mnist" / LABELS).unlink()
    with pytest.raises(DataError, match=LABELS):
        data.load("mnist", root=root)


VALID = idx(np.arange(12, dtype=np.uint8).reshape(3, 2, 2))
MALFORMED = {
    "empty": b"",
    "text": b"this is a text and not an IDX file",
    "of another type": b"\0\0\x0d" + VALID[3:],
    "no dimensions": b"\0\0\x08\0",
    "shape cut": b"\0\0\x08\x03\0\0",
    "shape missing": b"\0\0\x08\x03",
    "truncated": VALID[:-1],
    "too long": VALID + b"\0",
    "product of sizes overflows to zero": b"\0\0\x08\x04" + struct.pack(">4I", 1 << 16, 1 << 16, 1 << 16, 1 << 16),
    "too many dimensions": b"\0\0\x08\xff" + struct.pack(">255I", *[1] * 255) + b"\0",
}


@pytest.mark.parametrize("content", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_file_is_refused_by_name(root, content):
    (root / "mnist" / IMAGES).write_bytes(content)
    with pytest.raises(DataError, match=IMAGES):
        data.load("mnist", root=root)


MISFITS = {"images": np.zeros((3, 28, 28), np.uint8), "too few": np.zeros(2, np.uint8), "ten": np.full(3, 10, np.uint8)}


@pytest.mark.parametrize("array", MISFITS.values(), ids=MISFITS)
def test_labels_that_do_not_fit_are_refused_by_name(root, array):
    (root / "mnist" / LABELS).write_bytes(idx(array))
    with pytest.raises(DataError, match=r"t10k-(images|labels)-idx"):
        data.load("mnist", root=root)


@pytest.mark.parametrize("place", [0, 12, -6, -1])
def test_a_damaged_gz_is_refused_by_name(tmp_path, place):
    content = bytearray(gzip.compress(VALID, mtime=0))
    content[place] ^= 0xFF
    path = tmp_path / "images.gz"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"images\.gz"):
        read_idx(path)


def test_a_truncated_gz_is_refused_by_name(tmp_path):
    path = tmp_path / "images.gz"
    path.write_bytes(gzip.compress(VALID)[:-10])
    with pytest.raises(DataError, match=r"images\.gz"):
        read_idx(path)


def outcome(path):
    try:
        return read_idx(path)
    except DataError as error:
        return str(error)


@given(tail=st.binary(max_size=64), magic=st.sampled_from([b"", b"\0\0\x08", b"\0\0\x08\x01", b"\0\0\x08\x03"]))
@example(magic=b"\0\0\x08\x01", tail=b"\0\0\0\x02\x05\x06")
@settings(max_examples=50, deadline=None, derandomize=True)
def test_random_bytes_give_an_array_or_a_data_error(tmp_path_factory, magic, tail):
    path = tmp_path_factory.getbasetemp() / "random-idx-ubyte"
    path.write_bytes(magic + tail)
    found = outcome(path)
    assert path.name in found if isinstance(found, str) else found.dtype == np.uint8


@given(place=st.integers(0, 10_000), flip=st.integers(1, 255))
@settings(max_examples=50, deadline=None, derandomize=True)
def test_mutated_gz_files_give_an_array_or_a_data_error(tmp_path_factory, place, flip):
    content = bytearray(gzip.compress(VALID, mtime=0))
    content[place % len(content)] ^= flip
    path = tmp_path_factory.getbasetemp() / "mutated-idx-ubyte.gz"
    path.write_bytes(content)
    found = outcome(path)
    assert path.name in found if isinstance(found, str) else found.dtype == np.uint8
